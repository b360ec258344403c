import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  canInstall,
  installPackage,
  packLocalBuilds,
  packPackages,
  publishedPackages,
  runConcurrently,
} from './packed-packages.mjs';

const directory = mkdtempSync(join(tmpdir(), 'mtl-packed-'));
const folder = join(directory, 'user');
const isOnline = canInstall();
const whySkipped = isOnline ? '' : ' (skipped: neither the registry nor the cache of npm can be reached)';
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/**
 * A small part of packed-packages.test.mjs that runs for every change: the command that users install,
 * without types.
 */
describe.runIf(isOnline)(`the command, packed and installed into an empty folder${whySkipped}`, () => {
  const mtl = (...words) =>
    runConcurrently(join(folder, 'node_modules/.bin/mtl'), words, {
      cwd: folder,
      env: { MTL_KERNELS_ADDON: undefined, MTL_COMM_ADDON: undefined },
    });

  beforeAll(async () => {
    const tarballs = new Map([
      ...packPackages(directory, { hasTypes: false }),
      ...packLocalBuilds(directory),
    ]);
    await installPackage({ name: '@mtl/cli', tarballs, directory: folder });
  }, 240_000);

  it('has the version and the files of its manifest', async () => {
    const { version } = publishedPackages().get('@mtl/cli');
    expect(await mtl('--version')).toEqual({ status: 0, stdout: `${version}\n`, output: `${version}\n` });
    const installed = JSON.parse(readFileSync(join(folder, 'node_modules/@mtl/cli/package.json'), 'utf8'));
    expect(JSON.stringify(installed)).not.toMatch(/workspace:|@mtl\/source/);
  });

  it('trains, saves, evaluates and plans without a compiler', async () => {
    const sizes = ['--num-layers', '1', '--hidden-size', '32', '--num-attention-heads', '2'];
    const steps = ['--seq-length', '32', '--train-iters', '2', '--eval-iters', '0', '--save', 'run'];
    const trained = await mtl('train', 'gpt', '--preset', 'gpt2-4m', ...sizes, ...steps);
    expect(trained.status, trained.output).toBe(0);
    expect(trained.output).toMatch(/lm loss/);
    expect(existsSync(join(folder, 'run/iter_0000002'))).toBe(true);
    const evaluated = await mtl('generate', '--load', 'run', '--prompt', 'a', '--max-new-tokens', '2');
    expect(evaluated.status, evaluated.output).toBe(0);
    const planned = await mtl('plan', '--profile', 'h100-80gb', '--', '--preset', 'gpt2-124m', '--bf16');
    expect(planned.status, planned.output).toBe(0);
  }, 120_000);
});
