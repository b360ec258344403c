import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Checkpoint, SafetensorsDirectory } from '@mtl/checkpoint';
import { afterAll, describe, expect, it } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const inDirectory = (name: string): string => join(directory.path, name);
const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../formats/fixtures/${name}`, import.meta.url));

async function mtl(...argv: string[]): Promise<{ stdout: string; stderr: string }> {
  const { status, ...written } = await runMtlHere(...argv);
  expect({ status, error: /^error.*/m.exec(written.stderr)?.[0] }).toEqual({ status: 0, error: undefined });
  return written;
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

describe.each([
  ['torch-gpt-3', 'huggingface-gpt2'],
  ['torch-dist-llama', 'huggingface-llama'],
] as const)('%s of Megatron-LM', (name, huggingFace) => {
  it('goes to a checkpoint and on to the transformers library, bit for bit', async () => {
    const own = inDirectory(name);
    const from = ['--from', 'megatron', fixture(`megatron/${name}`)];
    const begun = await mtl('convert', ...from, '--save', own, '--no-load-optim');
    expect(begun.stdout).toContain(`${name}/iter_0000012 -> ${own}/iter_0000000\n`);
    expect(begun.stderr).toContain('it was trained with --tokenizer-type NullTokenizer');
    await mtl('convert', '--load', own, '--save-hf', inDirectory(`${name}-hf`));
    expect(await readWeights(inDirectory(`${name}-hf`))).toEqual(await readWeights(fixture(huggingFace)));
  });

  it('comes back from what is written for Megatron-LM', async () => {
    const [theirs, back] = [inDirectory(`${name}-out`), inDirectory(`${name}-back`)];
    const written = await mtl('convert', '--load', inDirectory(name), '--to', 'megatron', theirs);
    expect(written.stdout).toContain(`-> ${theirs}/release (float32)\n`);
    await mtl('convert', '--from', 'megatron', theirs, '--save', back);
    await mtl('convert', '--load', back, '--save-hf', inDirectory(`${name}-back-hf`));
    expect(await readWeights(inDirectory(`${name}-back-hf`))).toEqual(
      await readWeights(fixture(huggingFace)),
    );
  });
});

it('continues the iterations of Megatron-LM with the state of AdamW', async () => {
  const own = inDirectory('trained');
  const theirs = fixture('megatron/torch-dist-llama');
  const { stdout } = await mtl('convert', '--from', 'megatron', theirs, '--save', own);
  expect(stdout).toContain(`torch-dist-llama/iter_0000012 -> ${own}/iter_0000012\n`);
  const { state, tensors } = await Checkpoint.open(join(own, 'iter_0000012'));
  expect(state).toMatchObject({
    progress: { iteration: 12, consumedSamples: 96, consumedTokens: 96 * 24 },
    optimizerSteps: 12,
  });
  expect(tensors.has('optimizer.exp_avg_sq.decoder.final_layernorm.weight')).toBe(true);
});
