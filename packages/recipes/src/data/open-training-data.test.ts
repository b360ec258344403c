import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { expect, it } from 'vitest';
import { datasetFingerprints } from '../runs/dataset-fingerprint.js';
import { openTrainingData } from './open-training-data.js';

const line =
  '--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 ' +
  '--micro-batch-size 2 --train-iters 4 --eval-iters 1 --lr 1e-3 --mock-data';

it.each(['NullTokenizer --vocab-size 128', 'ByteLevelTokenizer'])(
  'opens made-up data without files, with a %s',
  async (tokenizer) => {
    const flags = parseFlags(`${line} --tokenizer-type ${tokenizer}`.split(' '));
    const messages: string[] = [];
    const { datasets, dataPath, ...data } = await openTrainingData(validateConfiguration(flags), {
      // nothing is prepared there
      corpusDirectory: '/dev/null/corpus',
      onMessage: (text) => void messages.push(text),
    });
    const { train, valid } = datasets;
    expect([train!.length >= 8, valid!.length >= 2]).toEqual([true, true]);
    const { tokens } = train!.sample(0) as unknown as { readonly tokens: Int32Array };
    expect(Math.max(...tokens)).toBeLessThan(data.tokenizer.vocabularySize);
    expect(datasetFingerprints(dataPath)).toEqual([]);
    expect(messages).toEqual([]);
  },
);
