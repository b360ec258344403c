import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { allocateParameters } from '@mtl/autograd';
import { parameterTensors, readHuggingFaceGpt } from '@mtl/formats';
import { generateAll } from '@mtl/inference';
import { numLiveTensors } from '@mtl/kernels';
import { GptLanguageModel, GptStage } from '@mtl/models';
import { describe, expect, it } from 'vitest';

const directory = fileURLToPath(
  new URL('../../../packages/formats/fixtures/huggingface-gpt2', import.meta.url),
);

describe('generate with a GPT', () => {
  it("gives transformers' greedy tokens, with a cache", async () => {
    const before = numLiveTensors();
    const { prompt, generated } = JSON.parse(readFileSync(`${directory}/expected.json`, 'utf8')) as {
      prompt: number[];
      generated: number[];
    };
    const huggingFace = await readHuggingFaceGpt({ directory });
    const stage = new GptStage({
      model: huggingFace.configuration,
      device: 'cpu',
      dtype: 'float32',
      seed: 0,
    });
    const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
    await huggingFace.load(parameterTensors(stage.parameters));
    const expected = generated.slice(
      generated.length > prompt.length && generated[0] === prompt[0] ? prompt.length : 0,
    );
    const [sequence] = await generateAll({
      model: new GptLanguageModel(stage),
      prompts: [prompt],
      maxNewTokens: expected.length,
      sampling: { temperature: 0 },
    });
    expect(sequence!.tokens).toEqual(expected);
    storage.dispose();
    expect(numLiveTensors()).toBe(before);
  });
});
