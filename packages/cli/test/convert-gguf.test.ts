import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SafetensorsDirectory } from '@mtl/checkpoint';
import { trainByteLevelBpe } from '@mtl/tokenizers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const inDirectory = (name: string): string => join(directory.path, name);

async function mtl(...argv: string[]): Promise<{ stdout: string; stderr: string }> {
  const { status, ...written } = await runMtlHere(...argv);
  expect({ status, error: /^error.*/m.exec(written.stderr)?.[0] }).toEqual({ status: 0, error: undefined });
  return written;
}

async function refused(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await runMtlHere(...argv);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  return stderr;
}

/** Returns all tensors of a Hugging Face directory, as text that shows every bit. */
async function readWeights(path: string): Promise<Readonly<Record<string, string>>> {
  await using weights = await SafetensorsDirectory.open(path);
  const values: Record<string, string> = {};
  for (const name of weights.tensors.keys()) {
    values[name] = Buffer.from(await weights.read({ name })).toString('base64');
  }
  return values;
}

const models = ['gpt2', 'llama', 'mixtral'] as const;

/** Copies a fixture, with a tokenizer of its vocabulary's size. */
function copyFixture(kind: string): string {
  const copy = inDirectory(kind);
  const own = new URL(`../../formats/fixtures/huggingface-${kind}`, import.meta.url);
  cpSync(fileURLToPath(own), copy, { recursive: true });
  const { vocab_size: size } = JSON.parse(readFileSync(join(copy, 'config.json'), 'utf8')) as {
    vocab_size: number;
  };
  const vocab = Object.fromEntries(
    Array.from({ length: size }, (_, id) => [String.fromCharCode(33 + id), id]),
  );
  const json = {
    version: '1.0',
    added_tokens: [{ id: 0, content: '!', special: true }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab, merges: [] },
  };
  writeFileSync(join(copy, 'tokenizer.json'), JSON.stringify(json));
  writeFileSync(join(copy, 'tokenizer_config.json'), JSON.stringify({ eos_token: '!' }));
  return copy;
}

describe.each(models)('a %s of the transformers library', (kind) => {
  beforeAll(() => void copyFixture(kind));

  it('goes to a GGUF file, a checkpoint and back, bit for bit', async () => {
    const [model, file, own] = [inDirectory(kind), inDirectory(`${kind}.gguf`), inDirectory(`${kind}-run`)];
    const written = await mtl('convert', '--load-hf', model, '--to', 'gguf', file);
    expect(written.stdout).toBe(`${model} -> ${file} (float32)\n`);
    const begun = await mtl('convert', '--from', 'gguf', file, '--save', own);
    expect(begun.stdout).toContain(`${file} -> ${own}/iter_0000000\ntrain it on with npm run gpt-train -- `);
    await mtl('convert', '--load', own, '--save-hf', inDirectory(`${kind}-hf`));
    expect(await readWeights(inDirectory(`${kind}-hf`))).toEqual(await readWeights(model));
    // the checkpoint and the directory give the same file
    const again = inDirectory(`${kind}-again.gguf`);
    await mtl('convert', '--load', own, '--to', 'gguf', again);
    const tensors = (path: string): Buffer => readFileSync(path).subarray(-20_000);
    expect(tensors(again).equals(tensors(file))).toBe(true);
  });
});

/** Returns the tensors of a file, with the alignment before them: they are behind the metadata. */
const lastBytes = (path: string): Buffer => readFileSync(path).subarray(-20_000);

describe('adapters', () => {
  const adapters = fileURLToPath(new URL('../../formats/fixtures/lora-llama', import.meta.url));
  const fromModel = () => ['convert', '--load-hf', inDirectory('llama'), '--load-lora', adapters];

  it('of PEFT are merged into a GGUF file, as into a directory of the transformers library', async () => {
    const file = inDirectory('merged.gguf');
    await mtl(...fromModel(), '--to', 'gguf', file);
    await mtl(...fromModel(), '--save-hf', inDirectory('merged-hf'));
    const other = inDirectory('merged-of-hf.gguf');
    await mtl('convert', '--load-hf', inDirectory('merged-hf'), '--to', 'gguf', other);
    expect(lastBytes(file).equals(lastBytes(other))).toBe(true);
    expect(lastBytes(file).equals(lastBytes(inDirectory('llama.gguf')))).toBe(false);
  });

  it('are trained on a model that was read from GGUF, and leave as GGUF, apart and merged', async () => {
    const [run, lora] = [inDirectory('from-gguf'), inDirectory('lora-run')];
    await mtl('convert', '--from', 'gguf', inDirectory('llama.gguf'), '--save', run);
    const batch = ['--micro-batch-size', '1', '--global-batch-size', '1', '--seq-length', '16'];
    await mtl(
      ...['train', 'gpt', '--load', run, '--finetune', '--lora-rank', '2', '--lr', '1e-2', '--save', lora],
      ...['--mock-data', ...batch, '--train-iters', '3', '--eval-iters', '0', '--log-interval', '1'],
    );
    await mtl('convert', '--load', lora, '--to', 'gguf-lora', inDirectory('apart.gguf'));
    await mtl('convert', '--load', lora, '--save-lora', inDirectory('peft'));
    await mtl(
      ...['convert', '--load-hf', inDirectory('llama'), '--load-lora', inDirectory('peft')],
      ...['--to', 'gguf-lora', inDirectory('apart-of-peft.gguf')],
    );
    const apart = ['apart.gguf', 'apart-of-peft.gguf'].map((name) => readFileSync(inDirectory(name)));
    expect(apart[0]!.subarray(-2000).equals(apart[1]!.subarray(-2000))).toBe(true);
    await mtl('convert', '--load', lora, '--to', 'gguf', inDirectory('tuned.gguf'));
    expect(lastBytes(inDirectory('tuned.gguf')).equals(lastBytes(inDirectory('llama.gguf')))).toBe(false);
    await mtl(
      ...['convert', '--load-hf', inDirectory('llama'), '--load-lora', inDirectory('peft')],
      ...['--to', 'gguf', inDirectory('tuned-of-peft.gguf')],
    );
    const tuned = ['tuned.gguf', 'tuned-of-peft.gguf'].map((name) => lastBytes(inDirectory(name)));
    expect(tuned[0]!.equals(tuned[1]!)).toBe(true);
  });
});

it('takes --outtype for --dtype, and says what rows that are not whole blocks become', async () => {
  const file = inDirectory('q8.gguf');
  const { stdout, stderr } = await mtl(
    ...['convert', '--load-hf', inDirectory('gpt2'), '--to', 'gguf', file, '--outtype', 'q4_k_m'],
  );
  expect(stdout).toBe(`${inDirectory('gpt2')} -> ${file} (q4_k_m)\n`);
  expect(stderr).toContain('q4_k_m: 9 of 28 tensors have rows that are not whole blocks');
});

it('keeps the tokenizer of a file for training, and names one that is needed', async () => {
  const model = inDirectory('llama');
  const json = await trainByteLevelBpe({ texts: ['a b'], vocabularySize: 257, minFrequency: 1 });
  writeFileSync(join(model, 'tokenizer.json'), JSON.stringify(json));
  const error = await refused('convert', '--load-hf', model, '--to', 'gguf', inDirectory('other.gguf'));
  expect(error).toContain('error[MTL_GGUF_TOKENIZER]');
  expect(error).toContain('the id 256, and the model has 37 tokens');
  expect(existsSync(inDirectory('other.gguf'))).toBe(false);
});

describe('a conversion that is not possible', () => {
  it('never writes over a file', async () => {
    const before = readFileSync(inDirectory('gpt2.gguf'));
    const error = await refused(
      'convert',
      '--load-hf',
      inDirectory('gpt2'),
      '--to',
      'gguf',
      inDirectory('gpt2.gguf'),
    );
    expect(error).toContain('error[MTL_GGUF_EXISTS]');
    expect(readFileSync(inDirectory('gpt2.gguf')).equals(before)).toBe(true);
  });

  it('names the dtypes of the format', async () => {
    const error = await refused(
      'convert',
      '--load-hf',
      'a',
      '--load-lora',
      'b',
      '--save-hf',
      'c',
      '--dtype',
      'q8_0',
    );
    expect(error).toContain('--dtype q8_0 is not written as huggingface');
    expect(error).toContain('one of float32, bfloat16, float16');
    const twice = ['--to', 'gguf', 'b', '--dtype', 'q8_0', '--outtype', 'q4_0'];
    expect(await refused('convert', '--load', 'a', ...twice)).toContain('--outtype is the same as --dtype');
  });

  it('begins no checkpoints in a directory that has some', async () => {
    const own = inDirectory('gpt2-run');
    const error = await refused('convert', '--from', 'gguf', inDirectory('gpt2.gguf'), '--save', own);
    expect(error).toContain('error[MTL_CHECKPOINT_EXISTS]');
  });

  it('names a file that is no GGUF', async () => {
    const file = inDirectory('gpt2/config.json');
    const error = await refused('convert', '--from', 'gguf', file, '--save', inDirectory('none'));
    expect(error).toContain(
      `error[MTL_GGUF_INVALID]: ${file} is not a valid GGUF file: it does not begin with GGUF`,
    );
    expect(existsSync(inDirectory('none'))).toBe(false);
  });
});

it('lists the formats in its help', async () => {
  const { stdout } = await mtl('convert', '--help');
  for (const line of [
    /--to huggingface DIR, --from huggingface DIR {2,}the transformers library/,
    /--to peft DIR {2,}the low-rank adapters/,
    /--to megatron DIR, --from megatron DIR {2,}Megatron-LM/,
    /--to gguf FILE, --from gguf FILE {2,}llama.cpp/,
    /--to gguf-lora FILE {2,}low-rank adapters/,
    /--dtype float32, float16, bfloat16, q8_0, q4_0, q4_k_m/,
  ]) {
    expect(stdout).toMatch(line);
  }
});
