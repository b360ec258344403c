import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

describe('dataConfiguration', () => {
  it.each<[string, object]>([
    ['--tokenizer-type GPT2BPETokenizer', { type: 'GPT2BPETokenizer' }],
    [
      '--tokenizer-type GPT2BPETokenizer --vocab-file v.json --merge-file m.txt',
      { type: 'GPT2BPETokenizer', vocabFile: 'v.json', mergeFile: 'm.txt' },
    ],
    [
      '--tokenizer-type HuggingFaceTokenizer --tokenizer-model t.json',
      { type: 'HuggingFaceTokenizer', tokenizerModel: 't.json' },
    ],
    ['--tokenizer-type NullTokenizer --vocab-size 100', { type: 'NullTokenizer', vocabSize: 100 }],
    [
      '--tokenizer-type BertWordPieceCase --vocab-file v.txt',
      { type: 'BertWordPieceCase', vocabFile: 'v.txt' },
    ],
  ])('describes the tokenizer of %s', (line, tokenizer) => {
    expect(configure(`${small} ${line}`).data.tokenizer).toEqual(tokenizer);
  });

  it('takes made-up data with any tokenizer, which needs no dataset', () => {
    const alone = small.replace(/--data-path \S+/, '');
    expect(
      configure(`${alone} --mock-data --tokenizer-type NullTokenizer --vocab-size 100`).data,
    ).toMatchObject({
      mockData: true,
      dataPath: [],
      tokenizer: { type: 'NullTokenizer', vocabSize: 100 },
    });
    expect(configure(`${alone} --mock-data --tokenizer-type ByteLevelTokenizer`).data.mockData).toBe(true);
    expect(configure(`${small} --tokenizer-type ByteLevelTokenizer`).data).not.toHaveProperty('mockData');
  });

  it("takes the tokenizer of Megatron-LM's program for the model where files alone are named, and says so", () => {
    const gpt = configure(`${small} --vocab-file v.json --merge-file m.txt`);
    expect(gpt.data.tokenizer).toEqual({ type: 'GPT2BPETokenizer', vocabFile: 'v.json', mergeFile: 'm.txt' });
    expect(gpt.notices).toContain(
      'the files of the tokenizer are read as files of --tokenizer-type GPT2BPETokenizer',
    );
    const bert = validateConfiguration(
      parseFlags([...small.split(' '), '--vocab-file', 'v.txt'], { model: 'bert' }),
    );
    expect(bert.data.tokenizer).toEqual({ type: 'BertWordPieceLowerCase', vocabFile: 'v.txt' });
    expect(bert.notices.join()).toContain('--tokenizer-type BertWordPieceLowerCase');
    const named = configure(`${small} --tokenizer-type GPT2BPETokenizer`);
    expect(named.notices.join()).not.toContain('--tokenizer-type');
  });
});

refusals(
  [
    ['--mock-data', 1, 'MTL_FLAG_REQUIRED', /--tokenizer-type is missing.*NullTokenizer --vocab-size N/s],
    [
      '--mock-data --data-path a --tokenizer-type ByteLevelTokenizer',
      1,
      'MTL_FLAG_CONFLICT',
      /made-up data or from data of your own/,
    ],
    [
      '--mock-data --train-data a --tokenizer-type ByteLevelTokenizer',
      1,
      'MTL_FLAG_CONFLICT',
      /made-up data or from data of your own/,
    ],
    ['--split 0,1,1', 1, 'MTL_SPLIT', /--split 0,1,1 gives training nothing/],
    ['--split 1,2,3,4', 1, 'MTL_SPLIT', /has 4 weights/],
    ['--split most', 1, 'MTL_SPLIT', /--split most is not a list of weights/],
    ['--split 9,-1', 1, 'MTL_SPLIT', /is not a list of weights/],
    [
      '--tokenizer-type HuggingFaceTokenizer',
      1,
      'MTL_FLAG_NEEDS',
      /does not say which tokens there are; expected --tokenizer-model/,
    ],
    ['--tokenizer-type NullTokenizer', 1, 'MTL_FLAG_NEEDS', /expected --vocab-size N/],
    ['--tokenizer-type BertWordPieceCase', 1, 'MTL_FLAG_NEEDS', /expected --vocab-file vocab.txt/],
    [
      '--tokenizer-type GPT2BPETokenizer --vocab-file v.json',
      1,
      'MTL_FLAG_NEEDS',
      /has no merges \(GPT-2's merges are built in, and need neither file\); expected --merge-file/,
    ],
    [
      '--tokenizer-type GPT2BPETokenizer --merge-file m.txt',
      1,
      'MTL_FLAG_NEEDS',
      /has no vocabulary .*expected --vocab-file/,
    ],
    [
      '--tokenizer-type ByteLevelTokenizer --vocab-size 9',
      1,
      'MTL_FLAG_NEEDS',
      /does not belong to a ByteLevelTokenizer; expected --tokenizer-type NullTokenizer/,
    ],
    [
      '--vocab-file v.txt',
      1,
      'MTL_FLAG_NEEDS',
      /--vocab-file v.txt needs a tokenizer; expected --tokenizer-type GPT2BPETokenizer or/,
    ],
    [
      '--vocab-size 9',
      1,
      'MTL_FLAG_NEEDS',
      /--vocab-size 9 needs a tokenizer; expected --tokenizer-type NullTokenizer/,
    ],
  ],
  { numAdvised: 4 },
);
