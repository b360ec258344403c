import { allocateParameters } from '@mtl/autograd';
import { type BertModelConfiguration, BertTaskStage, type TaskLoss } from '@mtl/models';
import { parseBertConfiguration } from '../../src/huggingface/bert-configuration.js';
import { JsonFields } from '../../src/huggingface/json-fields.js';
import { parameterTensors } from '../../src/index.js';
import { normal } from './tiny-models.js';

const words = 'the cat sat on a mat Dog dog Élan elan , . ! 中 国 un ##aff ##able run ##ning ##s 1 2 ##3';
export const vocabulary = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...words.split(' ')];

/** Returns the model of fields of config.json. */
export const parseBert = (fields: Readonly<Record<string, unknown>> = {}): BertModelConfiguration => {
  const config = new JsonFields('config.json', {
    model_type: 'bert',
    vocab_size: vocabulary.length,
    hidden_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    intermediate_size: 96,
    max_position_embeddings: 32,
    type_vocab_size: 2,
    hidden_act: 'gelu_new',
    hidden_dropout_prob: 0,
    attention_probs_dropout_prob: 0,
    ...fields,
  });
  return parseBertConfiguration(config, { makeVocabularySizeDivisibleBy: 16, sentenceOrderHead: false });
};

/**
 * Returns a BERT with random parameters. `outputs` are the outputs of the last layer [S, H]: a head that
 * selects two features of each position gives them two by two.
 */
export async function randomBert(model: BertModelConfiguration) {
  const task = { kind: 'span' } as const;
  const stage = new BertTaskStage({ model, task, device: 'cpu', dtype: 'float32', seed: 1 });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype: 'float32' });
  const tensors = parameterTensors(stage.parameters);
  const { hiddenSize: h, vocabularySize } = model;
  for (const [index, { name, globalShape, write }] of tensors.entries()) {
    const values = normal(
      globalShape.reduce((product, size) => product * size, 1),
      index + 1,
    );
    const isNorm = /norm\.weight$/.test(name);
    for (const [at, value] of values.entries()) values[at] = isNorm ? 1 + value / 4 : value / Math.sqrt(h);
    if (name === 'embedding.word_embeddings.weight') values.fill(0, vocabularySize * h);
    await write(new Uint8Array(values.buffer));
  }
  const [weight, bias] = ['weight', 'bias'].map(
    (kind) => tensors.find(({ name }) => name === `span_head.${kind}`)!,
  );
  const computePair = async (tokens: readonly number[], feature: number): Promise<readonly number[]> => {
    await bias!.write(new Uint8Array(8));
    const selected = new Float32Array(2 * h);
    selected.set([1], feature);
    selected.set([1], h + feature + 1);
    await weight!.write(new Uint8Array(selected.buffer));
    const batch = {
      batchSize: 1,
      numChoices: 1,
      sequenceLength: tokens.length,
      tokens: Int32Array.from(tokens),
      tokenTypes: new Int32Array(tokens.length),
      lengths: Int32Array.of(tokens.length),
      labels: undefined,
      startPositions: Int32Array.of(0),
      endPositions: Int32Array.of(0),
      sampleNumbers: Float64Array.of(0),
    };
    stage.evaluate({ microBatch: 0, batch, lossFactors: { task_loss: 1 } });
    const [taken] = stage.takeLosses(0);
    const { logits, dispose } = taken as TaskLoss;
    const values = logits.toArray();
    dispose();
    return values;
  };
  return {
    model,
    tensors,
    /** Returns the mean of the last layer's outputs, of length 1. */
    embedding: async (tokens: readonly number[]): Promise<readonly number[]> => {
      const mean = new Array<number>(h).fill(0);
      for (let feature = 0; feature < h; feature += 2) {
        const pair = await computePair(tokens, feature);
        for (const [at, value] of pair.entries()) mean[feature + Math.floor(at / tokens.length)]! += value;
      }
      const length = Math.hypot(...mean);
      return mean.map((value) => value / length);
    },
    [Symbol.dispose]: () => {
      stage.dispose();
      storage.dispose();
    },
  };
}
