import { type ProbedOptions, problemsOfOptions, takes } from '@mtl/errors/testing';
import { describe, expect, it } from 'vitest';
import { checkpointToLora } from './adapters/checkpoint-to-lora.js';
import { mergeLora } from './adapters/merge-lora.js';
import { checkpointToHuggingFace, checkpointToMegatron } from './conversion/from-checkpoint.js';
import { huggingFaceToCheckpoint, megatronToCheckpoint } from './conversion/to-checkpoint.js';
import { loadGptForInference } from './inference/load-gpt-for-inference.js';

const onNotice = (): void => {};
const ofCheckpoint = {
  load: takes.text,
  checkpointStep: (value: unknown) => value === 5,
  directory: takes.text,
  onNotice: takes.function,
};

const fromCheckpoint = [checkpointToHuggingFace, checkpointToMegatron, checkpointToLora].map(
  (convert): ProbedOptions => ({
    name: convert.name,
    call: (options) => convert(options as Parameters<typeof convert>[0]),
    right: { load: 'a', directory: 'b', onNotice },
    last: 'onNotice',
    accepts: ofCheckpoint,
  }),
);

const probed: readonly ProbedOptions[] = [
  ...fromCheckpoint,
  {
    name: 'the dtype of checkpointToHuggingFace',
    call: (options) => checkpointToHuggingFace(options as Parameters<typeof checkpointToHuggingFace>[0]),
    right: { load: 'a', directory: 'b', onNotice },
    last: 'dtype',
    accepts: { dtype: takes.nothing },
  },
  {
    name: 'mergeLora',
    call: (options) => mergeLora(options as Parameters<typeof mergeLora>[0]),
    right: { loadHuggingFace: 'a', loadLora: 'b', directory: 'c', onNotice },
    last: 'onNotice',
    accepts: {
      loadHuggingFace: takes.text,
      loadLora: takes.text,
      directory: takes.text,
      dtype: takes.nothing,
      onNotice: takes.function,
    },
  },
  {
    name: 'huggingFaceToCheckpoint',
    call: (options) => huggingFaceToCheckpoint(options as Parameters<typeof huggingFaceToCheckpoint>[0]),
    right: { loadHuggingFace: 'a', directory: 'b', onNotice },
    last: 'onNotice',
    accepts: { loadHuggingFace: takes.text, directory: takes.text, onNotice: takes.function },
  },
  {
    name: 'megatronToCheckpoint',
    call: (options) => megatronToCheckpoint(options as Parameters<typeof megatronToCheckpoint>[0]),
    right: { megatron: 'a', directory: 'b', onNotice },
    last: 'onNotice',
    accepts: {
      megatron: takes.text,
      step: (value) => value === 5,
      vocabularySize: (value) => value === 5,
      loadOptimizer: takes.boolean,
      directory: takes.text,
      onNotice: takes.function,
    },
  },
  {
    name: 'loadGptForInference',
    call: (options) => loadGptForInference(options as Parameters<typeof loadGptForInference>[0]),
    right: { load: 'a', device: 'cpu', onNotice },
    last: 'onNotice',
    accepts: {
      load: takes.text,
      checkpointStep: (value) => value === 5,
      loadHuggingFace: takes.text,
      loadLora: takes.text,
      device: takes.nothing,
      dtype: takes.nothing,
      tokenizer: takes.nothing,
      processes: takes.nothing,
      onNotice: takes.function,
    },
  },
];

describe('options of any JavaScript type', () => {
  it.each(probed.map((each) => [each.name, each] as const))(
    'are taken by %s, or refused with their path',
    async (_, each) => {
      expect(await problemsOfOptions(each)).toEqual([]);
    },
  );
});
