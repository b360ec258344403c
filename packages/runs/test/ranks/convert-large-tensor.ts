import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoint, type LogicalTensor, saveCheckpoint } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { writeGguf } from '@mtl/formats/gguf';
import { type GptModelConfiguration, gptModel, gptParameters } from '@mtl/models';
import { exportTokenizer } from '@mtl/tokenizers';
import { savedWeights } from '../../src/saved/checkpoints/saved-weights.js';
import { huggingFaceToGguf } from '../../src/saved/conversion/to-gguf.js';

export interface ConvertLargeTensorArgument {
  readonly directory: string;
  readonly from: 'save' | 'huggingface' | 'checkpoint';
}

const [vocabularySize, hiddenSize] = [36_864, 2048];

/** The bytes of the embedding, in float32. */
export const largeTensorBytes = 4 * vocabularySize * hiddenSize;

const config = {
  model_type: 'llama',
  vocab_size: vocabularySize,
  hidden_size: hiddenSize,
  intermediate_size: 32,
  num_hidden_layers: 1,
  num_attention_heads: 32,
  num_key_value_heads: 1,
  max_position_embeddings: 32,
  rms_norm_eps: 1e-5,
  hidden_act: 'silu',
  tie_word_embeddings: true,
};

const model: GptModelConfiguration = gptModel({
  numLayers: 1,
  hiddenSize,
  ffnHiddenSize: 32,
  numAttentionHeads: 32,
  groupQueryAttention: true,
  numQueryGroups: 1,
  maxPositionEmbeddings: 32,
  vocabularySize,
  positionEmbeddingType: 'rope',
  normalization: 'RMSNorm',
  swiglu: true,
  addBiasLinear: false,
  tieEmbeddings: true,
});

const tokenizerOptions = { type: 'ByteLevelTokenizer' } as const;

const layOutTensors = (shapes: Readonly<Record<string, readonly number[]>>): Buffer => {
  let end = 0;
  const header = Object.entries(shapes).map(([name, shape]) => {
    const start = end;
    end += 4 * shape.reduce((product, size) => product * size, 1);
    return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json]);
};

/** Writes a Llama whose weights are zeros, as a sparse file. */
async function writeSparseLlama(directory: string): Promise<void> {
  const [h, d] = [hiddenSize, hiddenSize / 32];
  const layer = {
    input_layernorm: [h],
    'self_attn.q_proj': [h, h],
    'self_attn.k_proj': [d, h],
    'self_attn.v_proj': [d, h],
    'self_attn.o_proj': [h, h],
    post_attention_layernorm: [h],
    'mlp.gate_proj': [32, h],
    'mlp.up_proj': [32, h],
    'mlp.down_proj': [h, 32],
  };
  const shapes = {
    'model.embed_tokens.weight': [vocabularySize, h],
    ...Object.fromEntries(
      Object.entries(layer).map(([name, shape]) => [`model.layers.0.${name}.weight`, shape]),
    ),
    'model.norm.weight': [h],
  };
  const path = join(directory, 'model.safetensors');
  const start = layOutTensors(shapes);
  writeFileSync(path, start);
  const values = Object.values(shapes).reduce(
    (sum, shape) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );
  truncateSync(path, start.length + 4 * values);
  writeFileSync(join(directory, 'config.json'), JSON.stringify(config));
  const files = (await exportTokenizer(tokenizerOptions)) ?? {};
  for (const [name, contents] of Object.entries(files)) writeFileSync(join(directory, name), contents);
}

/** Saves the same model as a checkpoint. */
async function saveZeros(directory: string): Promise<void> {
  const tensors = gptParameters(model).map(({ name, globalShape, size }): LogicalTensor => {
    const slices = globalShape.map((end) => ({ start: 0, end }));
    const read = () => new Uint8Array(4 * size);
    return { name, dtype: 'F32', globalShape, slices, read, write: () => {} };
  });
  const options = { directory, iteration: 1, state: {}, rank: 0, worldSize: 1 };
  await saveCheckpoint({ ...options, tensors, barrier: async (succeeded) => succeeded });
}

const statusBytes = (field: string): number =>
  1024 * Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))![1]);

/** Converts a model with one large tensor to GGUF; returns the growth of its resident memory, in bytes. */
export default async function convertLargeTensor(
  _world: World,
  { directory, from }: ConvertLargeTensorArgument,
): Promise<number> {
  if (from === 'save') {
    await writeSparseLlama(directory);
    await saveZeros(join(directory, 'checkpoints'));
    return 0;
  }
  const path = join(directory, `${from}.gguf`);
  globalThis.gc!();
  // Linux: resets the high-water mark of resident memory to the current value
  writeFileSync('/proc/self/clear_refs', '5');
  const before = statusBytes('VmRSS');
  if (from === 'huggingface') {
    await huggingFaceToGguf({ path, loadHuggingFace: directory, dtype: 'bfloat16', onNotice: () => {} });
  } else {
    const checkpoint = await Checkpoint.open(join(directory, 'checkpoints', 'iter_0000001'));
    const files = Object.entries((await exportTokenizer(tokenizerOptions)) ?? {});
    const tokenizerFiles = Object.fromEntries(files.map(([name, contents]) => [name, { contents }]));
    await writeGguf({ path, model, tensors: savedWeights(checkpoint), dtype: 'bfloat16', tokenizerFiles });
  }
  return statusBytes('VmHWM') - before;
}
