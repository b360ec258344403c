import { describe, expect, it } from 'vitest';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

const loraOf = (line: string) => validateConfiguration(parseFlags(line.split(' '), { model: 'gpt' })).lora;
const gpt2 = '--preset gpt2-4m --load x';
const llama =
  '--load x --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --swiglu ' +
  '--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights ' +
  '--disable-bias-linear --group-query-attention --num-query-groups 2 --micro-batch-size 1 --lr 1e-3 ' +
  '--train-iters 1 --data-path d --tokenizer-type NullTokenizer --vocab-size 50';

const mixture = `${llama} --num-experts 4 --moe-layer-freq 2 --moe-ffn-hidden-size 16`;

describe('adapterConfiguration', () => {
  it('fills in a scale of 1, no dropout and all linear layers', () => {
    expect(loraOf(gpt2)).toBeUndefined();
    expect(loraOf(`${gpt2} --lora-rank 4`)).toEqual({
      rank: 4,
      alpha: 4,
      useRslora: false,
      dropout: 0,
      targets: ['all-linear'],
    });
    const more =
      '--lora-rank 4 --lora-alpha 32 --use-rslora --lora-dropout 0.1 --lora-targets q_proj mlp.up_proj';
    expect(loraOf(`${llama} ${more}`)).toEqual({
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
      loraOf(line);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ code });
    const { message: text, expected } = thrown as { message: string; expected?: string };
    expect(`${text} ${expected}`).toMatch(message);
  });

  it('takes layers with experts, and dropout of others', () => {
    const targets = 'experts.gate_up_proj mlp.experts.down_proj mlp.down_proj';
    expect(loraOf(`${mixture} --lora-rank 4 --lora-targets ${targets}`)?.targets).toEqual(targets.split(' '));
    const dense = loraOf(`${mixture} --lora-rank 4 --lora-dropout 0.1 --lora-targets q_proj mlp.down_proj`);
    expect(dense?.dropout).toBe(0.1);
  });

  it('names the nearest layer', () => {
    expect(() => loraOf(`${gpt2} --lora-rank 4 --lora-targets c_atn`)).toThrow(
      expect.objectContaining({ remedy: 'pass c_attn', expected: 'c_attn, c_proj, c_fc, or all-linear' }),
    );
  });
});
