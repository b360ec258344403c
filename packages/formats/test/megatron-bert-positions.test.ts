import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { BertStage } from '@mtl/models';
import { smallBert } from '@mtl/models/testing';
import { expect, it } from 'vitest';
import { parameterTensors, readMegatron, writeMegatron } from '../src/index.js';

const build = (model: typeof smallBert) => {
  const stage = new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const values = () => stage.parameters.map(({ name, data }) => [name, data.toArray()] as const);
  const dispose = (): void => {
    storage.dispose();
    stage.dispose();
  };
  return { stage, values, dispose };
};

it.each([
  ['learned', {}, true],
  ['rotary', { positionEmbeddingType: 'rope', rotaryBase: 500, rotaryInterleaved: true }, false],
] as const)(
  'a BERT with %s positions goes to Megatron-LM and back, bit for bit',
  async (_, positions, hasTable) => {
    const parent = mkdtempSync(join(tmpdir(), 'mtl-megatron-bert-'));
    const directory = join(parent, 'saved');
    const model = { ...smallBert, ...positions };
    const own = build(model);
    for (const parameter of own.stage.parameters) initializeParameter(parameter, parameter.data, 3);
    const tensors = parameterTensors(own.stage.parameters);
    await writeMegatron({ directory, kind: 'bert', model, tensors, iteration: 5, consumedSamples: 40 });
    const found = await readMegatron({ directory, weightsOnly: true });
    expect(found).toMatchObject({ kind: 'bert', iteration: 5, configuration: model });
    const back = build(found.configuration as typeof smallBert);
    await found.load(parameterTensors(back.stage.parameters));
    expect(back.values().some(([name]) => name.includes('position_embeddings'))).toBe(hasTable);
    // the vocabulary's padding is not written
    const numWords = model.vocabularySize * model.hiddenSize;
    const kept = (values: readonly (readonly [string, number[]])[]) =>
      values.map(([name, all]) => [
        name,
        name === 'embedding.word_embeddings.weight' ? all.slice(0, numWords) : all,
      ]);
    expect(kept(back.values())).toEqual(kept(own.values()));
    await found.close();
    own.dispose();
    back.dispose();
    rmSync(parent, { recursive: true });
  },
);
