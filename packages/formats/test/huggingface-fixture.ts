import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { allocateParameters } from '@mtl/autograd';
import type { DType } from '@mtl/kernels';
import { GptLanguageModel, GptStage } from '@mtl/models';
import { parameterTensors, readHuggingFaceGpt } from '../src/index.js';

/**
 * The results that tooling/fixtures/huggingface-gpt2.py and huggingface-llama.py wrote next to each model.
 */
export interface Expected {
  readonly tokens: number[][];
  readonly logits: number[][][];
  readonly loss: number;
  readonly prompt: number[];
  readonly generated: number[];
}

export const gpt2Names = ['huggingface-gpt2', 'huggingface-erf'] as const;
export const llamaNames = [
  'huggingface-llama',
  'huggingface-llama-bias',
  'huggingface-smollm',
  'huggingface-mistral',
  'huggingface-qwen2',
  'huggingface-qwen3',
  'huggingface-smollm3',
  'huggingface-stablelm',
] as const;
export const expertNames = [
  'huggingface-mixtral',
  'huggingface-qwen2-moe',
  'huggingface-qwen3-moe',
  'huggingface-olmoe',
] as const;
export const fixtureNames = [...gpt2Names, ...llamaNames, ...expertNames] as const;
export type FixtureName = (typeof fixtureNames)[number];

export function fixtureDirectory(name: FixtureName): string {
  return fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
}

export async function readExpected(name: FixtureName): Promise<Expected> {
  return JSON.parse(await readFile(`${fixtureDirectory(name)}/expected.json`, 'utf8')) as Expected;
}

/** The model of a Hugging Face directory, with newly allocated storage. */
export async function loadModel(directory: string, { dtype = 'float32' }: { dtype?: DType } = {}) {
  const source = await readHuggingFaceGpt({ directory, makeVocabularySizeDivisibleBy: 16 });
  const stage = new GptStage({ model: source.configuration, device: 'cpu', dtype, seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype });
  await source.load(parameterTensors(stage.parameters));
  const dispose = (): void => {
    stage.dispose();
    storage.dispose();
  };
  return { source, stage, model: new GptLanguageModel(stage), dispose };
}
