import { describe, expect, it } from 'vitest';
import { parseFlags } from '../flags/parse-flags.js';
import { validateConfiguration } from '../validate-configuration.js';

const loraOf = (line: string) => validateConfiguration(parseFlags(line.split(' '), { model: 'gpt' })).lora;
const gpt2 = '--preset gpt2-4m --load x';
const llama =
  '--load x --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --swiglu ' +
  '--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights ' +
  '--disable-bias-linear --group-query-attention --num-query-groups 2 --micro-batch-size 1 --lr 1e-3 ' +
  '--train-iters 1 --data-path d --tokenizer-type NullTokenizer --vocab-size 50';

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

  it('names the nearest layer', () => {
    expect(() => loraOf(`${gpt2} --lora-rank 4 --lora-targets c_atn`)).toThrow(
      expect.objectContaining({ remedy: 'pass c_attn', expected: 'c_attn, c_proj, c_fc, or all-linear' }),
    );
  });
});
