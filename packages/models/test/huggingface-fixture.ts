import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { allocateParameters } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import { GptLanguageModel, GptStage, parameterTensors, readHuggingFaceGpt2 } from '../src/index.js';

/** What tooling/fixtures/huggingface-gpt2.py wrote next to each model. */
export interface Expected {
  readonly tokens: number[][];
  readonly logits: number[][][];
  readonly loss: number;
  readonly prompt: number[];
  readonly generated: number[];
}

export const fixtureNames = ['huggingface-gpt2', 'huggingface-erf'] as const;

export function fixtureDirectory(name: (typeof fixtureNames)[number]): string {
  return fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
}

export async function readExpected(name: (typeof fixtureNames)[number]): Promise<Expected> {
  return JSON.parse(await readFile(`${fixtureDirectory(name)}/expected.json`, 'utf8')) as Expected;
}

/** The model of a Hugging Face directory with storage of its own. */
export async function loadModel(directory: string, { dtype = 'float32' }: { dtype?: DType } = {}) {
  const source = await readHuggingFaceGpt2({ directory, makeVocabularySizeDivisibleBy: 16 });
  const stage = new GptStage({ model: source.configuration, device: 'cpu', dtype, seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype });
  await source.load(parameterTensors(stage.parameters));
  return { source, stage, model: new GptLanguageModel(stage), dispose: () => storage.dispose() };
}
