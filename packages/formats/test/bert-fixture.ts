import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { allocateParameters } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import { BertStage, type MaskedTokenBatch } from '@mtl/models';
import { parameterTensors, readHuggingFaceBert } from '../src/index.js';

/** A batch as tooling/fixtures/bert.py writes it. */
export interface FixtureBatch {
  readonly tokens: readonly number[];
  readonly tokenTypes: readonly number[];
  readonly lengths: readonly number[];
  readonly maskedPositions: readonly number[];
  readonly maskedLabels: readonly number[];
  readonly numMasked: number;
  readonly sentenceOrderLabels: readonly number[];
}

export const bertNames = ['huggingface-bert', 'huggingface-bert-masked', 'huggingface-roformer'] as const;

export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
}

export function readFixture<Value>(name: string): Value {
  const bytes = readFileSync(fixturePath(name));
  return JSON.parse((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()) as Value;
}

export function batchOfFixture(batch: FixtureBatch): MaskedTokenBatch {
  const { lengths, numMasked, maskedPositions } = batch;
  const batchSize = lengths.length;
  return {
    batchSize,
    sequenceLength: batch.tokens.length / batchSize,
    tokens: Int32Array.from(batch.tokens),
    tokenTypes: Int32Array.from(batch.tokenTypes),
    lengths: Int32Array.from(lengths),
    maskedPositions: Int32Array.from(maskedPositions),
    maskedLabels: Int32Array.from(batch.maskedLabels),
    maskedWeights: Float32Array.from(maskedPositions, (_, index) => (index < numMasked ? 1 : 0)),
    numMasked,
    sentenceOrderLabels: Int32Array.from(batch.sentenceOrderLabels),
    sampleNumbers: Float64Array.from(lengths, (_, row) => row),
  };
}

/** The model of a Hugging Face directory, with newly allocated storage. */
export async function loadBert(
  directory: string,
  options: { dtype?: DType; sentenceOrderHead?: boolean; mainGradients?: boolean } = {},
) {
  const { dtype = 'float32', sentenceOrderHead, mainGradients = false } = options;
  const source = await readHuggingFaceBert({
    directory,
    makeVocabularySizeDivisibleBy: 16,
    ...(sentenceOrderHead === undefined ? {} : { sentenceOrderHead }),
  });
  const stage = new BertStage({
    // the curves of the fixtures are without dropout
    model: { ...source.configuration, hiddenDropout: 0, attentionDropout: 0 },
    device: 'cpu',
    dtype,
    seed: 1,
  });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype, mainGradients });
  await source.load(parameterTensors(stage.parameters));
  const dispose = (): void => {
    storage.dispose();
    stage.dispose();
  };
  return { source, stage, dispose };
}
