import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { mutateBytes, mutateJson, mutateTemplate } from './mutations.mjs';
import { importPackage, root } from './packages.mjs';
import { makeTrace, readTraceFile } from './traces.mjs';

const data = await importPackage('@mtl/data');
const conversations = await importPackage('@mtl/data/conversations');
const tokenizers = await importPackage('@mtl/tokenizers');
const { ChatTemplate } = await importPackage('@mtl/chat-templates');
const checkpoint = await importPackage('@mtl/checkpoint');
const modelFiles = await importPackage('@mtl/formats');
const { readGguf, writeGguf } = await importPackage('@mtl/formats/gguf');
const { huggingFaceModelKind, isAdapter } = modelFiles;
const { gptParameters, modelParameters } = await importPackage('@mtl/models');
const schedules = await importPackage('@mtl/pipeline/schedules');

const texts = ['low lower lowest', 'new newer newest', 'naïve ✓ 你好 😀', '', 'the same', 'the same'];
const probe = 'low lower lowest, naïve 你好 😀 <|endoftext|> [CLS] \u0085 x';
const anything = () => undefined;

/**
 * The file formats to test.
 * - `make(directory)` writes a valid example, which is the same each time
 * - `files(directory)` returns the files to damage, one at a time
 * - `mutate(bytes, random)` returns a damaged copy of a file
 * - `read(directory, file)` reads all of the example with the public readers
 * - `invariant(result)` returns the part of the result that damage must not change unless an error is raised:
 *   data that the format stores twice. Undefined for a format that stores everything once, because a damaged
 *   file may be valid.
 */
export const formats = {
  parquet: {
    make: (directory) => cpSync(join(root, 'packages/data/fixtures/parquet'), directory, { recursive: true }),
    files: (directory) =>
      readdirSync(directory).filter((name) => /\.parquet$/.test(name) && !/nulls/.test(name)),
    mutate: mutateBytes,
    read: (directory, file) => readDocuments(join(directory, file)),
    // the file stores the number of rows several times: for the file, its row groups, chunks and pages
    invariant: (documents) => documents.length,
  },
  jsonl: {
    make: (directory) =>
      write(directory, 'a.jsonl', texts.map((text, i) => `${JSON.stringify({ text, i })}\n`).join('')),
    files: () => ['a.jsonl'],
    mutate: mutateBytes,
    read: (directory, file) => readDocuments(join(directory, file)),
    invariant: anything,
  },
  'jsonl-gz': {
    make: (directory) =>
      write(directory, 'a.jsonl.gz', gzipSync(texts.map((text) => `${JSON.stringify({ text })}\n`).join(''))),
    files: () => ['a.jsonl.gz'],
    mutate: mutateBytes,
    read: (directory, file) => readDocuments(join(directory, file)),
    // gzip has a checksum and a length
    invariant: JSON.stringify,
  },
  text: {
    make: (directory) => write(directory, 'a.txt', texts.join('\n\n')),
    files: () => ['a.txt'],
    mutate: mutateBytes,
    read: (directory, file) => readDocuments(join(directory, file)),
    invariant: anything,
  },
  indexed: {
    make: makeIndexed,
    files: () => ['a.idx', 'a.idx', 'a.bin'],
    mutate: mutateBytes,
    read: readIndexed,
    // lengths, pointers and the size of the .bin file must agree
    invariant: ({ numTokens }) => numTokens,
  },
  'index-cache': {
    make: (directory) => {
      makeIndexed(directory);
      readSamples(directory);
    },
    files: (directory) => readdirSync(join(directory, 'cache')).map((name) => join('cache', name)),
    mutate: mutateBytes,
    read: readSamples,
    // the number of samples is determined by the dataset
    invariant: (samples) => samples.length,
  },
  'tokenizer-json': {
    make: async (directory) => {
      const options = { texts, vocabularySize: 280, minFrequency: 1 };
      write(directory, 'bpe.json', JSON.stringify(await tokenizers.trainByteLevelBpe(options)));
      const short = { ...options, vocabularySize: 60 };
      write(directory, 'word-piece.json', JSON.stringify(await tokenizers.trainWordPiece(short)));
      write(directory, 'unigram.json', JSON.stringify(unigram));
      const settings = { eos_token: '<|endoftext|>', pad_token: { content: '<|endoftext|>' } };
      write(join(directory, 'model'), 'tokenizer_config.json', JSON.stringify(settings));
      cpSync(join(directory, 'bpe.json'), join(directory, 'model/tokenizer.json'));
    },
    files: () => ['bpe.json', 'word-piece.json', 'unigram.json', 'model/tokenizer_config.json'],
    mutate: mutateJson,
    read: (directory, file) => {
      const model = file.startsWith('model/') ? 'model' : file;
      return tokenize({ type: 'HuggingFaceTokenizer', tokenizerModel: join(directory, model) });
    },
    invariant: anything,
  },
  'vocab-json': {
    make: async (directory) => {
      const { model } = await tokenizers.trainByteLevelBpe({ texts, vocabularySize: 280, minFrequency: 1 });
      write(directory, 'vocab.json', JSON.stringify(model.vocab));
      write(
        directory,
        'merges.txt',
        `#version: 0.2\n${model.merges.map((merge) => [merge].flat().join(' ')).join('\n')}\n`,
      );
    },
    files: () => ['vocab.json', 'merges.txt'],
    mutate: (bytes, random, file) => (file.endsWith('.json') ? mutateJson : mutateBytes)(bytes, random),
    read: (directory) =>
      tokenize({
        type: 'GPT2BPETokenizer',
        vocabFile: join(directory, 'vocab.json'),
        mergeFile: join(directory, 'merges.txt'),
      }),
    invariant: anything,
  },
  'vocab-txt': {
    make: (directory) =>
      write(
        directory,
        'vocab.txt',
        '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlow\n##er\n##est\nnew\nn\nthe\nsame\n',
      ),
    files: () => ['vocab.txt'],
    mutate: mutateBytes,
    read: (directory) =>
      tokenize({ type: 'BertWordPieceLowerCase', vocabFile: join(directory, 'vocab.txt') }),
    invariant: anything,
  },
  safetensors: {
    make: (directory) =>
      cpSync(join(root, 'packages/checkpoint/fixtures/python-sharded'), directory, { recursive: true }),
    files: (directory) => readdirSync(directory).filter((name) => /\.(safetensors|json)$/.test(name)),
    mutate: (bytes, random, file) => (file.endsWith('.json') ? mutateJson : mutateBytes)(bytes, random),
    read: readSafetensors,
    invariant: anything,
  },
  'hugging-face': {
    make: (directory) => {
      const fixtures = join(root, 'packages/formats/fixtures');
      for (const kind of huggingFaceFixtures) {
        const name = `huggingface-${kind}`;
        cpSync(join(fixtures, name), join(directory, name), { recursive: true });
      }
    },
    files: () =>
      ['config.json', 'config.json', 'model.safetensors'].flatMap((name) =>
        huggingFaceFixtures.map((kind) => `huggingface-${kind}/${name}`),
      ),
    mutate: (bytes, random, file) => (file.endsWith('.json') ? mutateJson : mutateBytes)(bytes, random),
    read: (directory, file) => readModel(join(directory, file, '..')),
    invariant: anything,
  },
  lora: {
    make: (directory) => {
      for (const name of loraFixtures) {
        cpSync(join(root, 'packages/formats/fixtures', name), join(directory, name), { recursive: true });
      }
    },
    files: () =>
      ['adapter_config.json', 'adapter_model.safetensors'].flatMap((file) =>
        loraFixtures.map((name) => join(name, file)),
      ),
    mutate: (bytes, random, file) => (file.endsWith('.json') ? mutateJson : mutateBytes)(bytes, random),
    read: (directory, file) => readAdapters(directory, dirname(file)),
    invariant: anything,
  },
  gguf: {
    make: makeGguf,
    files: (directory) => readdirSync(directory),
    mutate: mutateBytes,
    read: (directory, file) => loadGguf(join(directory, file)),
    invariant: anything,
  },
  checkpoint: {
    make: makeCheckpoint,
    files: (directory) => {
      const [name] = readdirSync(directory).filter((entry) => entry.startsWith('iter_'));
      return readdirSync(join(directory, name)).map((file) => join(name, file));
    },
    mutate: (bytes, random, file) => (file.endsWith('.json') ? mutateJson : mutateBytes)(bytes, random),
    read: readCheckpoint,
    // manifest and shards have checksums
    invariant: JSON.stringify,
  },
  manifest: {
    make: makeCheckpoint,
    files: () => ['iter_0000001/manifest.json'],
    mutate: mutateManifest,
    read: readCheckpoint,
    invariant: anything,
  },
  megatron: {
    make: (directory) => {
      const fixtures = join(root, 'packages/formats/fixtures/megatron');
      for (const name of megatronFixtures) {
        cpSync(join(fixtures, name), join(directory, name), { recursive: true });
      }
    },
    files: (directory) =>
      megatronFixtures.flatMap((name) =>
        readdirSync(join(directory, name), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => relative(directory, join(entry.parentPath, entry.name))),
      ),
    mutate: mutateBytes,
    read: readMegatron,
    invariant: anything,
  },
  'chat-template': {
    make: (directory) => {
      for (const [index, text] of chatTemplates.entries()) write(directory, `${index}.jinja`, text);
      write(directory, 'chats.jsonl', chats.map((one) => `${JSON.stringify(one)}\n`).join(''));
    },
    // templates are listed twice, so that most of the damage is in templates
    files: (directory) => [...readdirSync(directory), ...readdirSync(directory).slice(0, -1)],
    mutate: (bytes, random, file) =>
      file.endsWith('.jinja') ? mutateTemplate(bytes, random) : mutateBytes(bytes, random),
    read: readChats,
    invariant: anything,
  },
  schedule: {
    make: (directory) => {
      const size = { numStages: 3, numMicroBatches: 4 };
      for (const name of ['1f1b', 'zb-h1']) {
        write(directory, `${name}.csv`, schedules.formatScheduleCsv(schedules.buildSchedule(name, size)));
      }
    },
    files: (directory) => readdirSync(directory),
    mutate: mutateBytes,
    read: (directory, file) => {
      const schedule = schedules.parseScheduleCsv(readFileSync(join(directory, file), 'utf8'), {
        name: file,
      });
      const times = { forward: 1, backwardInput: 1, backwardWeight: 1 };
      return schedules.formatTimeline(schedules.simulateSchedule({ schedule, times }));
    },
    invariant: anything,
  },
  trace: {
    make: (directory) => write(directory, 'trace.json', JSON.stringify(makeTrace(schedules))),
    files: () => ['trace.json'],
    mutate: mutateJson,
    read: (directory, file) => readTraceFile(schedules, join(directory, file)),
    invariant: anything,
  },
};

function write(directory, name, content) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, name), content);
}

async function readDocuments(path) {
  const documents = [];
  for await (const document of data.readDocuments({ path })) documents.push(document);
  return documents;
}

function makeIndexed(directory) {
  mkdirSync(directory, { recursive: true });
  const writer = new data.IndexedDatasetWriter({ prefix: join(directory, 'a'), dtype: 'uint16' });
  for (const length of [5, 3, 0, 7, 4, 12, 9]) {
    if (length > 0) writer.addSequence(Array.from({ length }, (_, i) => i));
    writer.endDocument();
  }
  writer.finish();
}

function readIndexed(directory) {
  const prefix = join(directory, 'a');
  const dataset = data.IndexedDataset.open(prefix);
  try {
    for (let i = 0; i < dataset.numSequences; i++) dataset.sequence(i);
    for (let i = 0; i < dataset.numDocuments; i++) dataset.documentSequences(i);
    data.verifyIndexedDataset({ prefix, vocabularySize: 1000 });
    return { numTokens: dataset.numTokens };
  } finally {
    dataset.close();
  }
}

function readSamples(directory) {
  const dataset = data.openGptDataset({
    prefix: join(directory, 'a'),
    split: 'train',
    sequenceLength: 4,
    seed: 1,
    numSamples: 20,
    cacheDirectory: join(directory, 'cache'),
  });
  try {
    return Array.from({ length: dataset.length }, (_, i) => dataset.sample(i));
  } finally {
    dataset.close();
  }
}

async function tokenize(options) {
  const tokenizer = await tokenizers.createTokenizer(options);
  return tokenizer.decode(tokenizer.encode(probe));
}

async function readSafetensors(directory) {
  const weights = await checkpoint.SafetensorsDirectory.open(directory);
  try {
    for (const name of weights.tensors.keys()) await weights.read({ name });
  } finally {
    await weights.close();
  }
}

async function readModel(directory) {
  const kind = await huggingFaceModelKind(directory);
  return kind === 'bert'
    ? await modelFiles.readHuggingFaceBert({ directory })
    : await modelFiles.readHuggingFaceGpt({ directory });
}

const huggingFaceFixtures = ['gpt2', 'bert', 'mixtral', 'qwen2-moe'];

const loraFixtures = ['lora-gpt2', 'lora-llama', 'lora-mixtral', 'lora-olmoe'];

/** Reads adapters in PEFT's format into tensors of the model to which they belong. */
async function readAdapters(directory, name) {
  const base = join(root, 'packages/formats/fixtures', name.replace('lora', 'huggingface'));
  const { configuration: model } = await modelFiles.readHuggingFaceGpt({ directory: base });
  const adapters = await modelFiles.readLoraDirectory({ directory: join(directory, name), model });
  const lora = modelFiles.specifyLora(adapters.configuration, model);
  const parameters = gptParameters(model, { lora }).filter((each) => isAdapter(each.name));
  await adapters.load(float32Tensors(parameters));
}

/** Returns float32 tensors for the values of parameters or, with a `prefix`, for a state of the optimizer. */
const float32Tensors = (parameters, prefix = '') =>
  parameters.map(({ name, globalShape, size }) => {
    const memory = new Uint8Array(4 * size);
    return checkpoint.hostTensor({ name: `${prefix}${name}`, dtype: 'F32', globalShape, memory });
  });

/** Writes the models of three fixtures as GGUF files, with a tokenizer whose tokens are single bytes. */
async function makeGguf(directory) {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const dtypes = { gpt2: 'q8_0', llama: 'float32', mixtral: 'float16' };
  for (const [kind, dtype] of Object.entries(dtypes)) {
    const fixture = join(root, 'packages/formats/fixtures', `huggingface-${kind}`);
    const {
      configuration: model,
      load,
      origin,
    } = await modelFiles.readHuggingFaceGpt({ directory: fixture });
    const tensors = float32Tensors(gptParameters(model));
    await load(tensors);
    const path = join(directory, `${kind}.gguf`);
    await writeGguf({
      path,
      model,
      tensors,
      origin,
      dtype,
      tokenizerFiles: makeTokenizer(model.vocabularySize),
    });
  }
}

/** Returns the files of a tokenizer with `vocabularySize` tokens, each of a single character. */
function makeTokenizer(vocabularySize) {
  const vocab = Object.fromEntries(
    Array.from({ length: vocabularySize }, (_, id) => [String.fromCharCode(33 + id), id]),
  );
  const json = {
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    model: { type: 'BPE', vocab, merges: [] },
  };
  return { 'tokenizer.json': { contents: JSON.stringify(json) } };
}

/** Reads the model of a GGUF file in the same way as the conversion. */
async function loadGguf(path) {
  const found = await readGguf(path);
  try {
    await found.load(float32Tensors(gptParameters(found.configuration)));
  } finally {
    await found.close();
  }
}

/** Checkpoints of every format. The checkpoint torch-dist-llama includes AdamW's state. */
const megatronFixtures = [
  ...['torch-gpt-0', 'torch-gpt-1', 'torch-llama'],
  ...['torch-dist-bert', 'torch-dist-qwen3', 'torch-dist-llama'],
];

/**
 * Loads a model and its optimizer state in the same way as the conversion, and reads every tensor in the
 * file.
 */
async function readMegatron(directory, file) {
  const [name, iteration, ...rest] = file.split('/');
  const found = await modelFiles.readMegatron({ directory: join(directory, name) });
  try {
    const { kind, configuration: model, optimizer } = found;
    const parameters = modelParameters({ kind, model });
    await found.load(float32Tensors(parameters));
    for (const state of ['exp_avg', 'exp_avg_sq']) {
      await optimizer?.load(float32Tensors(parameters, `optimizer.${state}.`));
    }
  } finally {
    await found.close();
  }
  if (rest.length === 0) return;
  if (name.startsWith('torch-dist')) {
    const path = join(directory, name, iteration);
    const opened = await checkpoint.DistributedTorchDirectory.open(path);
    for (const tensor of opened.tensors.keys()) await opened.read({ name: tensor });
    for (const object of opened.objects.keys()) await opened.readObject(object);
  } else {
    const opened = await checkpoint.TorchFile.open(join(directory, file));
    const tensors = [...opened.content.values()].flatMap(function inside(value) {
      if (value instanceof checkpoint.TorchTensor) return [value];
      return value instanceof Map ? [...value.values()].flatMap(inside) : [];
    });
    for (const tensor of tensors) await opened.readTensor(tensor);
    await opened.close();
  }
}

/**
 * Chat templates with typical features: loops, macros, namespaces, filters, and message contents that are
 * lists of strings.
 */
const { families } = JSON.parse(
  gunzipSync(readFileSync(join(root, 'packages/chat-templates/fixtures/jinja.json.gz'))).toString('utf8'),
);
const chatTemplates = [
  ...families.map((text) => text.replaceAll('chat', 'messages')),
  "{% for m in messages %}{{ m.role.ljust(12, '.') ~ m.content[:9] * 3 }}{% endfor %}{{ range(100) | batch(3, 0) | list | tojson(indent=2) }}",
  "{% set ns = namespace(s='x', n=2) %}{% for i in range(9) %}{% set ns.s = ns.s + ns.s %}{% set ns.n = ns.n ** 2 %}{% endfor %}{{ ns.s | indent(4) | replace('x', 'yy') }}",
  "{{ '%9d|%.9f|{:>9}'.format(1) % (2, 2.5) }}{% macro f(n) %}{{ f(n - 1) if n > 0 else 'end' }}{% endmacro %}{{ f(9) }}{{ [1, [2, [3]]] | string }}",
];
const call = {
  id: 'abcdefghi',
  type: 'function',
  function: { name: 'f', arguments: { 10: 1.5, 9: [null, { a: 'b' }] } },
};
const chats = [
  { messages: ['user', 'assistant'].map((role) => ({ role, content: 'low 😀' })) },
  {
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'lower' }] },
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', content: '1', tool_call_id: call.id },
      { role: 'assistant', content: '<think>x</think>newest', weight: 1 },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: { properties: {} } } }],
  },
];

/** Renders every conversation with every template. Some templates reject some conversations. */
async function readChats(directory) {
  const names = readdirSync(directory).filter((name) => name.endsWith('.jinja'));
  const templates = names.map((name) => {
    const text = readFileSync(join(directory, name), 'utf8');
    return attempt(() => new ChatTemplate({ name, text }));
  });
  for await (const { messages, tools, where } of conversations.readConversations(
    join(directory, 'chats.jsonl'),
  )) {
    for (const template of templates) attempt(() => template?.render({ messages, tools, where }));
  }
}

/** Returns the result of `run`; undefined if it throws an error that blames the template. */
function attempt(run) {
  try {
    return run();
  } catch (error) {
    if (error.code === 'MTL_CHAT_TEMPLATE') return undefined;
    throw error;
  }
}

const makeTensors = () =>
  ['a', 'b'].map((name, i) => {
    const memory = new Uint8Array(4 * 6);
    new Float32Array(memory.buffer).fill(i + 1);
    return { memory, tensor: checkpoint.hostTensor({ name, dtype: 'F32', globalShape: [2, 3], memory }) };
  });

async function makeCheckpoint(directory) {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const tensors = makeTensors().map(({ tensor }) => tensor);
  await checkpoint.saveCheckpoint({ directory, iteration: 1, tensors, state: { step: 1 } });
}

/**
 * Damages the content of a manifest and updates its checksum. Only a faulty program would cause such damage.
 */
function mutateManifest(bytes, random) {
  const manifest = JSON.parse(bytes);
  const damaged = mutateJson(Buffer.from(JSON.stringify(manifest.content)), random);
  try {
    const content = JSON.parse(damaged);
    const sha256 = createHash('sha256').update(JSON.stringify(content)).digest('hex');
    return Buffer.from(JSON.stringify({ ...manifest, sha256, content }));
  } catch {
    return damaged;
  }
}

async function readCheckpoint(directory, file) {
  const path = join(directory, file, '..');
  const opened = await checkpoint.Checkpoint.open(path);
  await checkpoint.verifyCheckpoint(opened);
  const tensors = makeTensors();
  for (const { memory } of tensors) memory.fill(0);
  await checkpoint.loadCheckpoint({ checkpoint: opened, tensors: tensors.map(({ tensor }) => tensor) });
  return tensors.map(({ memory }) => [...memory]);
}

const metaspace = { type: 'Metaspace', replacement: '▁', add_prefix_space: true, prepend_scheme: 'always' };
const unigram = {
  version: '1.0',
  added_tokens: [
    { id: 0, content: '<unk>', special: true },
    { id: 1, content: '</s>', special: true },
  ],
  normalizer: { type: 'Sequence', normalizers: [{ type: 'NFKC' }, { type: 'Lowercase' }] },
  pre_tokenizer: metaspace,
  post_processor: null,
  decoder: metaspace,
  model: {
    type: 'Unigram',
    unk_id: 0,
    vocab: [
      ['<unk>', 0],
      ['</s>', 0],
      ['▁low', -2],
      ['er', -3],
      ['▁', -4],
      ['l', -5],
      ['o', -5],
      ['w', -5],
    ],
  },
};
