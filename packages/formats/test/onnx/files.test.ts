import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostTensor } from '@mtl/checkpoint';
import { afterAll, describe, expect, it } from 'vitest';
import { type OnnxDtype, writeOnnxGpt } from '../../src/onnx/index.js';
import { decodeMessage, type TensorProto } from '../../src/onnx/protobuf/messages.js';
import { storeBytes } from '../../src/onnx/storage/byte-storage.js';
import { storeFourBits } from '../../src/onnx/storage/four-bit-storage.js';
import { ModelWeights } from '../../src/onnx/storage/model-weights.js';
import {
  configurations,
  emptyModel,
  normal,
  parseModel,
  randomModel,
  type TinyModelName,
  tokenizerFiles,
} from '../gguf/tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-onnx-'));
afterAll(() => rmSync(scratch, { recursive: true }));

async function write(
  name: TinyModelName,
  folder: string,
  options: { dtypes?: readonly OnnxDtype[]; mostFileBytes?: number },
) {
  const directory = join(scratch, folder);
  using tiny = await randomModel(parseModel(configurations[name]));
  const { model, tensors } = tiny;
  await writeOnnxGpt({ directory, model, tensors, tokenizerFiles, endTokens: [266], ...options });
  const values = new Map<string, Buffer>();
  for (const tensor of tensors) values.set(tensor.name, Buffer.from(await tensor.read()));
  const read = (file: string) => decodeMessage('ModelProto', readFileSync(join(directory, 'onnx', file)));
  return { directory, values, read, model };
}

const findTensor = (tensors: readonly TensorProto[], name: string): TensorProto =>
  tensors.find((tensor) => tensor.name === name)!;

const projection = 'decoder.layers.0.self_attention.linear_qkv.weight';

describe('writeOnnxGpt', () => {
  it('writes a model that decodes to its graph, its cache and its weights', async () => {
    const { read, values, directory } = await write('llama', 'whole', {});
    const { graph, irVersion, opsetImport } = read('model.onnx');
    expect([irVersion, ...opsetImport.map(({ domain, version }) => [domain, version])]).toEqual([
      10n,
      ['', 21n],
      ['com.microsoft', 1n],
    ]);
    const { input, output, initializer, node } = graph!;
    const cache = [0, 1].flatMap((layer) => [`${layer}.key`, `${layer}.value`]);
    expect(input.map(({ name }) => name)).toEqual([
      ...['input_ids', 'attention_mask', 'position_ids', 'num_logits_to_keep'],
      ...cache.map((name) => `past_key_values.${name}`),
    ]);
    expect(output.map(({ name }) => name)).toEqual([...cache.map((name) => `present.${name}`), 'logits']);
    const [, , , , key] = input;
    expect(key!.type.tensorType.shape.dim.map(({ dimParam, dimValue }) => dimParam || dimValue)).toEqual([
      'batch_size',
      2n,
      'past_sequence_length',
      24n,
    ]);
    const stored = findTensor(initializer, projection);
    expect(stored.dims).toEqual([192n, 64n]);
    expect(Buffer.from(stored.rawData!).equals(values.get(projection)!)).toBe(true);
    // the padding of the vocabulary is left out
    expect(findTensor(initializer, 'output_layer.weight').dims).toEqual([267n, 64n]);
    // each input is an output of an earlier node, an input of the graph, or a tensor
    const known = new Set([...input, ...initializer].map(({ name }) => name));
    for (const { input: read, output: made } of node) {
      for (const name of read) expect(known.has(name)).toBe(true);
      for (const name of made) known.add(name);
    }
    expect(output.every(({ name }) => known.has(name))).toBe(true);
    const config = JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8'));
    expect(config).toMatchObject({ model_type: 'llama', 'transformers.js_config': { dtype: 'fp32' } });
    const settings = JSON.parse(readFileSync(join(directory, 'tokenizer_config.json'), 'utf8'));
    expect(settings).toMatchObject({ model_max_length: 64, chat_template: '{{ messages }}' });
    expect(JSON.parse(readFileSync(join(directory, 'generation_config.json'), 'utf8'))).toEqual({
      eos_token_id: 266,
    });
  });

  it('divides weights over files that can be mapped from their start', async () => {
    const { read, values, directory } = await write('llama', 'several', { mostFileBytes: 60_000 });
    const files = readdirSync(join(directory, 'onnx')).length - 1;
    expect(files).toBeGreaterThan(2);
    const config = JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8'));
    expect(config['transformers.js_config'].use_external_data_format).toEqual({ 'model.onnx': files });
    const { dataLocation, externalData } = findTensor(read('model.onnx').graph!.initializer, projection);
    expect(dataLocation).toBe(1);
    const { location, offset, length } = Object.fromEntries(
      externalData!.map(({ key, value }) => [key, value]),
    );
    expect(Number(offset) % 4096).toBe(0);
    const bytes = readFileSync(join(directory, 'onnx', location!)).subarray(
      Number(offset),
      Number(offset) + Number(length),
    );
    expect(bytes.equals(values.get(projection)!)).toBe(true);
  });

  it('has the operators of each dtype', async () => {
    const dtypes = ['fp16', 'q8', 'q4'] as const;
    const { read } = await write('gpt2', 'dtypes', { dtypes });
    const operators = ['fp16', 'quantized', 'q4'].map(
      (suffix) => new Set(read(`model_${suffix}.onnx`).graph!.node.map(({ opType }) => opType)),
    );
    const matmuls = ['Gemm', 'MatMulInteger', 'MatMulNBits'];
    expect(operators.map((own) => matmuls.filter((name) => own.has(name)))).toEqual([
      ['Gemm'],
      ['MatMulInteger'],
      ['MatMulInteger', 'MatMulNBits'],
    ]);
  });

  it('leaves nothing where it fails, and writes over nothing', async () => {
    const directory = join(scratch, 'failed');
    using tiny = emptyModel(parseModel(configurations.llama));
    const { model, tensors } = tiny;
    await tensors[3]!.write(
      new Uint8Array(
        new Float32Array(tensors[3]!.globalShape.reduce((a, b) => a * b, 1)).fill(Number.NaN).buffer,
      ),
    );
    const options = { directory, model, tensors, tokenizerFiles };
    await expect(writeOnnxGpt(options)).rejects.toMatchObject({ code: 'MTL_NOT_FINITE' });
    expect(readdirSync(scratch).filter((name) => name.includes('failed'))).toEqual([]);
    const { directory: present } = await write('gpt2', 'present', {});
    await expect(writeOnnxGpt({ ...options, directory: present })).rejects.toMatchObject({
      code: 'MTL_ONNX_EXISTS',
    });
  });

  it('stores the rows of gates and values of experts in turn', async () => {
    const { read, values } = await write('mixtral', 'experts', {});
    const name = 'decoder.layers.0.mlp.experts.linear_fc1.weight';
    const { dims, rawData } = findTensor(read('model.onnx').graph!.initializer, name);
    expect(dims).toEqual([4n, 192n, 64n]);
    const [stored, own] = [rawData!, values.get(name)!];
    const row = (bytes: Uint8Array, index: number): Buffer =>
      Buffer.from(bytes.subarray(index * 256, (index + 1) * 256));
    for (const [expert, feature] of [
      [0, 0],
      [3, 95],
    ] as const) {
      for (const part of [0, 1]) {
        const found = row(stored, expert * 192 + 2 * feature + part);
        expect(found.equals(row(own, expert * 192 + part * 96 + feature))).toBe(true);
      }
    }
  });

  it.each([
    [
      'an activation that MoE lacks',
      { squaredRelu: true, swiglu: false },
      'fp32',
      "the activation 'squaredRelu'",
    ],
    ['a hidden size of one block', { hiddenSize: 32 }, 'q4', 'q4 of experts whose rows have 32 weights'],
    ['rows that q4 cannot have', { moeFfnHiddenSize: 40 }, 'q4', 'q4 of experts whose rows have 40 weights'],
  ] as const)('refuses %s by name', async (_, fields, dtype, says) => {
    const directory = join(scratch, dtype);
    const model = { ...parseModel(configurations.mixtral), ...fields };
    using tiny = await randomModel(model);
    const { tensors } = tiny;
    const options = { directory, model, tensors, tokenizerFiles, dtypes: [dtype] };
    const refused = { code: 'MTL_ONNX_ARCHITECTURE', message: expect.stringContaining(says) };
    await expect(writeOnnxGpt(options)).rejects.toMatchObject(refused);
    expect(existsSync(directory)).toBe(false);
  });

  it('refuses a tokenizer without tokenizer.json, a tensor too many and one too few', async () => {
    const directory = join(scratch, 'refused');
    using tiny = await randomModel(parseModel(configurations.llama));
    const { model, tensors } = tiny;
    const options = { directory, model, tokenizerFiles, tensors };
    await expect(writeOnnxGpt({ ...options, tokenizerFiles: {} })).rejects.toMatchObject({
      code: 'MTL_ONNX_TOKENIZER',
    });
    const memory = new Uint8Array(4);
    const other = hostTensor({ name: 'other', dtype: 'F32', globalShape: [1], memory });
    for (const wrong of [[...tensors, other], tensors.slice(1)]) {
      await expect(writeOnnxGpt({ ...options, tensors: wrong })).rejects.toMatchObject({
        code: 'MTL_HUGGING_FACE_TENSOR',
      });
    }
  });
});

const [outputs, inputs] = [5, 72];
const matrix = normal(outputs * inputs, 7);
const memory = new Uint8Array(matrix.buffer);
// two rows at a time
const weights = new ModelWeights(
  [hostTensor({ name: 'w', dtype: 'F32', globalShape: [outputs, inputs], memory })],
  {
    valuesAtOnce: 2 * inputs,
  },
);

async function readAll(tensor: { read(): AsyncIterable<Uint8Array> }): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  for await (const part of tensor.read()) parts.push(Buffer.from(part));
  return Uint8Array.from(Buffer.concat(parts));
}

describe('quantized matrices', () => {
  it('have bytes within half a step of the weights, transposed', async () => {
    const { values, scales } = storeBytes(weights.take('w', [outputs, inputs]));
    const [bytes, factors] = [await readAll(values), new Float32Array((await readAll(scales)).buffer)];
    expect(values.shape).toEqual([inputs, outputs]);
    matrix.forEach((value, index) => {
      const [output, input] = [Math.floor(index / inputs), index % inputs];
      const scale = factors[output]!;
      expect(Math.abs(scale * (bytes[input * outputs + output]! - 128) - value)).toBeLessThanOrEqual(
        0.5001 * scale,
      );
    });
  });

  it('have levels of 4 bits within a step of the weights, and zeros after them', async () => {
    const { values, scales } = storeFourBits(weights.take('w', [outputs, inputs]));
    const [bytes, factors] = [await readAll(values), new Float32Array((await readAll(scales)).buffer)];
    const numBlocks = Math.ceil(inputs / 32);
    const levelAt = (row: number, at: number): number => {
      const byte = bytes[(row * numBlocks * 32 + at) >> 1]!;
      return at % 2 === 0 ? byte & 15 : byte >> 4;
    };
    for (let row = 0; row < outputs; row++) {
      for (let at = 0; at < numBlocks * 32; at++) {
        const scale = factors[row * numBlocks + (at >> 5)]!;
        const value = at < inputs ? matrix[row * inputs + at]! : 0;
        // 15 levels have no +8: a value that is opposite to the largest one may be a step away
        expect(Math.abs(scale * (levelAt(row, at) - 8) - value)).toBeLessThanOrEqual(
          1.0001 * Math.abs(scale),
        );
      }
    }
  });
});
