import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GgufDtype, type GgufGpt, readGguf, writeGguf } from '../../src/gguf/index.js';
import {
  configurations,
  emptyModel,
  parseModel,
  randomModel,
  type TinyModel,
  type TinyModelName,
  tinyModelNames,
  tokenizerFiles,
  tokenizerJson,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const endTokens = [266];
const tokens = [5, 260, 17, 0, 99, 266, 42, 7];

async function write(tiny: TinyModel, name: string, dtype: GgufDtype): Promise<string> {
  const path = join(scratch, `${name}.gguf`);
  const config = { model_type: configurations[name.split('.')[0] as TinyModelName].model_type };
  const { model, tensors } = tiny;
  const origin = { config };
  await writeGguf({ path, model, tensors, dtype, tokenizerFiles, endTokens, origin, name: 'tiny' });
  return path;
}

/** Returns the model of a file with its weights. */
async function loaded(found: GgufGpt): Promise<TinyModel> {
  const tiny = emptyModel(found.configuration);
  await found.load(tiny.tensors);
  return tiny;
}

const viewBytes = ({ buffer, byteOffset, byteLength }: Float32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

/** Returns the largest difference of log-probabilities. */
function largestDifference(one: TinyModel, other: TinyModel): number {
  const rows = other.logProbabilities(tokens);
  const differences = one
    .logProbabilities(tokens)
    .flatMap((row, position) => [...row].map((value, token) => Math.abs(value - rows[position]![token]!)));
  return Math.max(...differences);
}

const readValues = async ({ model, tensors }: TinyModel): Promise<ReadonlyMap<string, Float32Array>> => {
  const entries = await Promise.all(
    tensors.map(async ({ name, read }) => {
      const values = new Float32Array(Uint8Array.from(await read()).buffer);
      const isTable = /^(embedding\.word_embeddings|output_layer)\.weight$/.test(name);
      // padding, which may have other rows
      return [name, isTable ? values.subarray(0, model.vocabularySize * model.hiddenSize) : values] as const;
    }),
  );
  return new Map(entries);
};

describe.each(tinyModelNames)('%s', (name) => {
  let written: TinyModel;
  beforeAll(async () => {
    written = await randomModel(parseModel(configurations[name]));
    return () => written[Symbol.dispose]();
  });

  it('comes back from float32 bit for bit, and computes the same', async () => {
    const path = await write(written, name, 'float32');
    const found = await readGguf(path);
    using read = await loaded(found);
    await found.close();
    expect(found.notices).toEqual([]);
    const [values, expected] = [await readValues(read), await readValues(written)];
    expect([...values.keys()]).toEqual([...expected.keys()]);
    const differing = [...values].filter(([tensor, own]) =>
      Buffer.compare(viewBytes(own), viewBytes(expected.get(tensor)!)),
    );
    expect(differing).toEqual([]);
    expect(largestDifference(read, written)).toBe(0);
    const again = await write(read, `${name}.again`, 'float32');
    expect(readFileSync(again).equals(readFileSync(path))).toBe(true);
  });

  it.each(['float16', 'bfloat16', 'q8_0'] as const)('comes back from %s, rounded once', async (dtype) => {
    const found = await readGguf(await write(written, `${name}.${dtype}`, dtype));
    using read = await loaded(found);
    await found.close();
    const [before, after] = [await readValues(written), await readValues(read)];
    for (const [tensor, values] of before) {
      const rounded = after.get(tensor)!;
      const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
      // half a unit in the last place of the largest value; half a level of the block with it
      const bound = most * { float16: 2 ** -11, bfloat16: 2 ** -8, q8_0: 1 / 254 + 2 ** -11 }[dtype];
      const worst = values.reduce((far, value, at) => Math.max(far, Math.abs(rounded[at]! - value)), 0);
      expect(worst, tensor).toBeLessThanOrEqual(bound);
    }
    // vectors, routers and positions stay as they are, everything else is rounded
    const isExact = (tensor: string): boolean =>
      before.get(tensor)!.every((value, index) => value === after.get(tensor)![index]);
    const exact = [...before.keys()].filter(isExact);
    expect(exact).toEqual(
      [...before.keys()].filter((tensor) =>
        /norm|bias|router|position_embeddings|shared_experts\.gate/.test(tensor),
      ),
    );
    const again = await write(read, `${name}.${dtype}.again`, dtype);
    expect(readFileSync(again).equals(readFileSync(found.path))).toBe(true);
  });
});

it('brings the tokenizer back, with its template and its end of texts', async () => {
  using written = await randomModel(parseModel(configurations.gpt2));
  const found = await readGguf(await write(written, 'gpt2.tokenizer', 'float32'));
  await found.close();
  const json = JSON.parse(found.tokenizerFiles['tokenizer.json']!) as typeof tokenizerJson;
  const { added_tokens: added, model, pre_tokenizer: splitting } = json;
  expect(added).toMatchObject(tokenizerJson.added_tokens);
  expect(splitting).toEqual(tokenizerJson.pre_tokenizer);
  expect(model).toMatchObject(tokenizerJson.model);
  expect(JSON.parse(found.tokenizerFiles['tokenizer_config.json']!)).toMatchObject({
    eos_token: '<|endoftext|>',
    chat_template: '{{ messages }}',
  });
  expect(found.endTokens).toEqual(endTokens);
});
