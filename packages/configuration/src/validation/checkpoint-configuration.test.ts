import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

describe('checkpointConfiguration', () => {
  it('waits for a checkpoint unless told to go on', () => {
    const flags = `${small} --save x --save-interval 5`;
    expect(configure(flags).checkpoint.asyncSave).toBe(false);
    expect(configure(`${flags} --async-save`).checkpoint.asyncSave).toBe(true);
  });

  it('starts optimizer and random state afresh when fine-tuning', () => {
    expect(configure(`${small} --load x --finetune`).checkpoint).toMatchObject({
      loadOptimizer: false,
      loadRng: false,
    });
    expect(configure(`${small} --load x --no-load-rng`).checkpoint).toMatchObject({
      loadOptimizer: true,
      loadRng: false,
    });
  });
});

refusals(
  [
    [
      '--moe-use-upcycling',
      1,
      'MTL_FLAG_NEEDS',
      /makes experts, and there are none; expected --num-experts N/,
    ],
    ['--num-experts 4 --moe-use-upcycling', 1, 'MTL_FLAG_NEEDS', /has no dense model to take layers from/],
    ['--num-experts 4 --moe-use-upcycling --load x', 1, 'MTL_FLAG_NEEDS', /expected --finetune/],
    [
      '--num-experts 4 --moe-use-upcycling --load x --finetune --moe-ffn-hidden-size 24',
      1,
      'MTL_FLAG_CONFLICT',
      /have their width/,
    ],
    [
      '--save-interval 5',
      1,
      'MTL_FLAG_NEEDS',
      /--save-interval 5 has nowhere to save to; expected --save DIR/,
    ],
    ['--keep-last 5', 1, 'MTL_FLAG_NEEDS', /expected --save DIR/],
    [
      '--async-save --save x',
      1,
      'MTL_FLAG_NEEDS',
      /--async-save would have nothing to write .*; expected --save-interval N/,
    ],
    ['--finetune', 1, 'MTL_FLAG_NEEDS', /--finetune has nothing to load; expected --load DIR/],
    ['--ckpt-step 5', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    [
      '--load x --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler',
      1,
      'MTL_FLAG_CONFLICT',
      /the schedule comes from the command line or from the checkpoint/,
    ],
    ['--no-load-optim', 1, 'MTL_FLAG_NEEDS', /expected --load DIR/],
    ['--load a --load-hf b', 1, 'MTL_FLAG_CONFLICT', /--load a and --load-hf b: weights come from one place/],
  ],
  { numAdvised: 0 },
);

const configureLora = (line: string) =>
  validateConfiguration(parseFlags(line.split(' '), { model: 'gpt' })).lora;
const gpt2 = '--preset gpt2-4m --load x';
const llama =
  '--load x --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --swiglu ' +
  '--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights ' +
  '--disable-bias-linear --group-query-attention --num-query-groups 2 --micro-batch-size 1 --lr 1e-3 ' +
  '--train-iters 1 --data-path d --tokenizer-type NullTokenizer --vocab-size 50';

const mixture = `${llama} --num-experts 4 --moe-layer-freq 2 --moe-ffn-hidden-size 16`;

describe('adapterConfiguration', () => {
  it('fills in a scale of 1, no dropout and all linear layers', () => {
    expect(configureLora(gpt2)).toBeUndefined();
    expect(configureLora(`${gpt2} --lora-rank 4`)).toEqual({
      rank: 4,
      alpha: 4,
      useRslora: false,
      dropout: 0,
      targets: ['all-linear'],
    });
    const more =
      '--lora-rank 4 --lora-alpha 32 --use-rslora --lora-dropout 0.1 --lora-targets q_proj mlp.up_proj';
    expect(configureLora(`${llama} ${more}`)).toEqual({
      rank: 4,
      alpha: 32,
      useRslora: true,
      dropout: 0.1,
      targets: ['q_proj', 'mlp.up_proj'],
    });
  });

  it.each([
    ['--preset gpt2-4m --lora-rank 4', 'MTL_FLAG_NEEDS', /--load-hf DIR or --load DIR/],
    [`${gpt2} --lora-alpha 4`, 'MTL_FLAG_NEEDS', /--lora-rank N/],
    [`${gpt2} --save-lora d`, 'MTL_FLAG_NEEDS', /--lora-rank N/],
    [`${gpt2} --lora-rank 4 --load-lora d`, 'MTL_FLAG_CONFLICT', /resumed run/],
    [`${gpt2} --lora-rank 4 --optimizer muon`, 'MTL_FLAG_CONFLICT', /Muon/],
    [`${gpt2} --lora-rank 4 --lora-targets c_atn`, 'MTL_LORA_TARGETS', /called c_atn/],
    [`${llama} --lora-rank 4 --lora-targets c_attn`, 'MTL_LORA_TARGETS', /called c_attn/],
    [
      `${llama} --lora-rank 4 --lora-targets experts.down_proj`,
      'MTL_LORA_TARGETS',
      /no linear layer of the model is called experts.down_proj/,
    ],
    [
      `${mixture} --lora-rank 4 --lora-targets shared_expert.up_proj`,
      'MTL_LORA_TARGETS',
      /shared_expert.up_proj/,
    ],
    [
      `${mixture} --moe-layer-freq 1 --lora-rank 4 --lora-targets gate_proj`,
      'MTL_LORA_TARGETS',
      /gate_up_proj/,
    ],
    [`${mixture} --lora-rank 4 --lora-dropout 0.1`, 'MTL_LORA_TARGETS', /experts have no dropout, and 0.1/],
  ])('refuses %s', (line, code, message) => {
    let thrown: unknown;
    try {
      configureLora(line);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code });
    const { message: text, expected } = thrown as { message: string; expected?: string };
    expect(`${text} ${expected}`).toMatch(message);
  });

  it('takes layers with experts, and dropout of others', () => {
    const targets = 'experts.gate_up_proj mlp.experts.down_proj mlp.down_proj';
    expect(configureLora(`${mixture} --lora-rank 4 --lora-targets ${targets}`)?.targets).toEqual(
      targets.split(' '),
    );
    const dense = configureLora(
      `${mixture} --lora-rank 4 --lora-dropout 0.1 --lora-targets q_proj mlp.down_proj`,
    );
    expect(dense?.dropout).toBe(0.1);
  });

  it('names the nearest layer', () => {
    expect(() => configureLora(`${gpt2} --lora-rank 4 --lora-targets c_atn`)).toThrow(
      expect.objectContaining({ remedy: 'pass c_attn', expected: 'c_attn, c_proj, c_fc, or all-linear' }),
    );
  });
});
