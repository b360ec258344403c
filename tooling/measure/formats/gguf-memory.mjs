// Converts a model with 8 billion parameters to GGUF with mtl convert, and prints its peak memory. The exit
// status is 1 if the peak is over 2 GB, or if the values in the file differ from the model.
//   --dtype NAME   the same as in mtl convert [q4_0]
//   --layers N     fewer layers than the model's 32, to save time; the largest matrices are embedding and
//   head
//   --folder DIR   a disk with room for the GGUF file: 5 GB for q4_0 [a temporary folder]
// The model is a Llama with Llama 3's sizes in bfloat16, as sparse files. Its weights are holes, which read
// as zeros and take no disk space, except the first and last rows of some matrices.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({
  options: {
    dtype: { type: 'string', default: 'q4_0' },
    layers: { type: 'string', default: '32' },
    folder: { type: 'string', default: tmpdir() },
  },
});
const limit = 2e9;
const numLayers = Number(flags.layers);
const config = {
  model_type: 'llama',
  vocab_size: 128_256,
  hidden_size: 4096,
  intermediate_size: 14_336,
  num_hidden_layers: numLayers,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  max_position_embeddings: 8192,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  hidden_act: 'silu',
  tie_word_embeddings: false,
  dtype: 'bfloat16',
  eos_token_id: 128_001,
};
const { hidden_size: h, intermediate_size: f, vocab_size: v } = config;

/**
 * Returns the shapes of the tensors by name, in the order of the files. The names are the names in the
 * transformers library.
 */
function listShapes() {
  const layers = Array.from({ length: numLayers }, (_, layer) =>
    Object.entries({
      input_layernorm: [h],
      'self_attn.q_proj': [h, h],
      'self_attn.k_proj': [h / 4, h],
      'self_attn.v_proj': [h / 4, h],
      'self_attn.o_proj': [h, h],
      post_attention_layernorm: [h],
      'mlp.gate_proj': [f, h],
      'mlp.up_proj': [f, h],
      'mlp.down_proj': [h, f],
    }).map(([name, shape]) => [`model.layers.${layer}.${name}.weight`, shape]),
  );
  return [
    ['model.embed_tokens.weight', [v, h]],
    ...layers.flat(),
    ['model.norm.weight', [h]],
    ['lm_head.weight', [v, h]],
  ];
}

const countValues = (shape) => shape.reduce((product, size) => product * size, 1);

/**
 * Returns a row of bfloat16 values as bits. The values are integers with a magnitude of at most 127, which 8
 * bits store exactly.
 */
function makeRow(length, seed) {
  const floats = Float32Array.from({ length }, (_, index) =>
    index % 32 === 0 ? 127 : ((index * seed) % 255) - 127,
  );
  return { floats, bits: Uint16Array.from(new Uint32Array(floats.buffer), (bits) => bits >>> 16) };
}

/** Writes the weights as sparse safetensors files of at most 5 GB each, and their index. */
async function writeWeights(directory) {
  const groups = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const [name, shape] of listShapes()) {
    const size = 2 * countValues(shape);
    if (bytes + size > 5e9) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1).push({ name, shape, offset: bytes, size });
    bytes += size;
  }
  const weight_map = {};
  for (const [index, group] of groups.entries()) {
    const file = `model-${index + 1}-of-${groups.length}.safetensors`;
    const header = Object.fromEntries(
      group.map(({ name, shape, offset, size }) => [
        name,
        { dtype: 'BF16', shape, data_offsets: [offset, offset + size] },
      ]),
    );
    const json = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    const handle = await open(join(directory, file), 'w');
    await handle.write(Buffer.concat([length, json]), 0, 8 + json.length, 0);
    const end = group.at(-1);
    await handle.truncate(8 + json.length + end.offset + end.size);
    for (const { name, shape, offset, size } of group) {
      weight_map[name] = file;
      const [rows, columns] = shape;
      if (columns === undefined) continue;
      const row = Buffer.from(makeRow(columns, 7).bits.buffer);
      for (const at of [0, rows - 1])
        await handle.write(row, 0, row.length, 8 + json.length + offset + at * 2 * columns);
      if (size !== rows * row.length) throw new Error(`${name} is not a matrix`);
    }
    await handle.close();
  }
  writeFileSync(
    join(directory, 'model.safetensors.index.json'),
    JSON.stringify({ metadata: {}, weight_map }),
  );
}

/**
 * Writes a byte-level BPE tokenizer with a token for each row of the embedding, merged from two or three
 * bytes.
 */
function writeTokenizer(directory) {
  const isShown = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isShown(byte) ? byte : next++));
  const added = Array.from({ length: 256 }, (_, index) => `<|reserved_${index}|>`);
  const numMerges = v - bytes.length - added.length;
  const pairs = bytes.flatMap((one) => bytes.map((other) => [one, other]));
  const triples = pairs.slice(0, 300).flatMap(([one, other]) => bytes.map((last) => [one + other, last]));
  const merges = [...pairs, ...triples].slice(0, numMerges);
  const tokens = [...bytes, ...merges.map(([one, other]) => one + other)];
  const json = {
    version: '1.0',
    added_tokens: added.map((content, index) => ({ id: tokens.length + index, content, special: true })),
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries([...tokens, ...added].map((token, id) => [token, id])),
      merges,
    },
  };
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify(json));
  writeFileSync(join(directory, 'tokenizer_config.json'), JSON.stringify({ eos_token: added[1] }));
}

const cli = fileURLToPath(new URL('../../../packages/cli/bin/mtl.mjs', import.meta.url));
/** Code that prints the peak of resident memory when a process ends (see proc_pid_status(5)). */
const atExit = `import { readFileSync, writeSync } from 'node:fs';
process.on('exit', () => writeSync(2, /VmHWM:.*/.exec(readFileSync('/proc/self/status', 'utf8'))[0] + '\\n'));`;

/** Runs mtl convert. Returns its peak memory in bytes, and its time in seconds. */
async function convert(...args) {
  const begin = performance.now();
  const options = ['--import', `data:text/javascript,${encodeURIComponent(atExit)}`, cli, 'convert'];
  const child = spawn(process.execPath, [...options, ...args], { stdio: ['ignore', 'inherit', 'pipe'] });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  const status = await new Promise((resolve) => child.on('close', resolve));
  const [, kilobytes] = /VmHWM:\s*(\d+) kB/.exec(errors) ?? [];
  if (status !== 0) throw new Error(`mtl convert ended with ${status}\n${errors}`);
  return { peak: Number(kilobytes) * 1024, seconds: (performance.now() - begin) / 1000 };
}

/** Compares rows of the GGUF file with blocks of integers, which quantization stores exactly. */
async function check(path) {
  const { readGguf } = await import('@mtl/formats/gguf');
  const { hostTensor } = await import('@mtl/checkpoint');
  const file = await readGguf(path);
  const expected = makeRow(h, 7).floats;
  for (const name of ['embedding.word_embeddings.weight', 'output_layer.weight']) {
    for (const [row, values] of [
      [0, expected],
      [1, new Float32Array(h)],
      [v - 1, expected],
    ]) {
      const memory = new Uint8Array(4 * h);
      const slices = [
        { start: row, end: row + 1 },
        { start: 0, end: h },
      ];
      await file.load([hostTensor({ name, dtype: 'F32', globalShape: [v, h], slices, memory })]);
      if (Buffer.compare(memory, new Uint8Array(values.buffer)) !== 0)
        throw new Error(`row ${row} of ${name} has other values`);
    }
  }
  await file.close();
  console.log('first and last rows of embedding and head are as in the model');
}

const folder = mkdtempSync(join(flags.folder, 'mtl-gguf-memory-'));
try {
  await writeWeights(folder);
  writeTokenizer(folder);
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  const parameters = listShapes().reduce((sum, [, shape]) => sum + countValues(shape), 0);
  const path = join(folder, 'model.gguf');
  const { peak, seconds } = await convert('--load-hf', folder, '--to', 'gguf', path, '--dtype', flags.dtype);
  const of = `${(parameters / 1e9).toFixed(2)} billion parameters to ${(statSync(path).size / 1e9).toFixed(2)} GB of ${flags.dtype}`;
  console.log(`${of}: peak of memory ${(peak / 1e6).toFixed(0)} MB, ${seconds.toFixed(0)} s`);
  if (flags.dtype === 'q8_0') await check(path);
  if (peak > limit) {
    console.error(`error: the peak is over ${limit / 1e6} MB`);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
