import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { sourceHash } from '../native/source-hash.mjs';
import { testFolder } from '../processes/test-folder.mjs';
import { usePlatformAddons } from './platform-addons.mjs';

const platform = `${process.platform}-${process.arch}`;
const name = `@mtl/kernels-${platform}`;
const own = `platforms/kernels-${platform}`;
let folder;
let said;
let server;
let registry;
/** The folder whose packages the registry serves for npm to download. */
const served = testFolder('served-addons');

const use = () => usePlatformAddons({ root: folder.path, say: (line) => said.push(line) });
const hash = () => sourceHash({ root: folder.path, name: 'kernels' });
const builtFrom = (sources) => JSON.stringify({ sources });

beforeAll(async () => {
  served.write(
    'content/package/package.json',
    JSON.stringify({ name, version: '1.2.3', os: [process.platform], cpu: [process.arch] }),
  );
  served.write('content/package/mtl_kernels.node', 'addon');
});
afterAll(() => served.remove());

beforeEach(() => {
  said = [];
  folder = testFolder('platform-addons');
  const { write } = folder;
  write('packages/kernels/CMakeLists.txt', 'project(example)');
  write(
    'packages/kernels/package.json',
    '{ "dependencies": { "node-addon-api": "1", "node-api-headers": "1" } }',
  );
  write('packages/kernels/native/core/a.cc', 'int a;');
  write(
    `${own}/package.json`,
    JSON.stringify({ name, version: '1.2.3', os: [process.platform], cpu: [process.arch] }),
  );
});
afterEach(async () => {
  folder.remove();
  delete process.env.npm_config_registry;
  await server?.terminate();
  server = undefined;
});

/** Serves a package that was built from the given sources. Returns the package's integrity value. */
async function serve(sources) {
  served.write('content/package/built-from.json', builtFrom(sources));
  const tarballs = join(served.path, 'tarballs');
  mkdirSync(tarballs, { recursive: true });
  const tarball = join(tarballs, 'addon.tgz');
  rmSync(tarball, { force: true });
  spawnSync('tar', ['czf', tarball, '-C', join(served.path, 'content'), 'package']);
  // the registry runs in a thread, because the tested function blocks while it waits for npm
  const script = `import { parentPort } from 'node:worker_threads';
    const { startRegistry } = await import(${JSON.stringify(new URL('../release/local-registry.mjs', import.meta.url).href)});
    const server = await startRegistry({ folders: [${JSON.stringify(tarballs)}] });
    parentPort.postMessage(server.address().port);`;
  server = new Worker(new URL(`data:text/javascript,${encodeURIComponent(script)}`));
  registry = await new Promise((resolve, reject) => server.once('message', resolve).once('error', reject));
  process.env.npm_config_registry = `http://127.0.0.1:${registry}`;
  process.env.npm_config_cache = join(folder.path, 'npm-cache');
  return `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
}

it('compiles where no platform package was built or released from these sources', () => {
  expect(use()).toBe(false);
  folder.write(`${own}/mtl_kernels.node`, 'addon');
  folder.write(`${own}/built-from.json`, builtFrom('others'));
  folder.write(
    `${own}/released.json`,
    JSON.stringify({ version: '1.2.3', sources: 'others', integrity: 'x' }),
  );
  expect(use()).toBe(false);
  expect(said).toEqual([]);
});

it('uses a platform package that was built from these sources, until they change or there is a local build', () => {
  folder.write(`${own}/mtl_kernels.node`, 'addon');
  folder.write(`${own}/built-from.json`, builtFrom(hash()));
  expect(use()).toBe(true);
  folder.write('packages/kernels/build/Release/mtl_kernels.node', 'local');
  expect(use()).toBe(false);
  rmSync(join(folder.path, 'packages/kernels/build'), { recursive: true });
  folder.write('packages/kernels/native/core/a.cc', 'int b;');
  expect(use()).toBe(false);
});

it('downloads what was released from these sources, and refuses what is not it', async () => {
  const integrity = await serve(hash());
  const release = (record) =>
    folder.write(`${own}/released.json`, JSON.stringify({ version: '1.2.3', sources: hash(), ...record }));
  release({ integrity: 'sha512-other' });
  expect(use()).toBe(false);
  expect(said).toEqual([expect.stringContaining('is not what was released')]);
  expect(existsSync(join(folder.path, own, 'mtl_kernels.node'))).toBe(false);
  const manifest = readFileSync(join(folder.path, own, 'package.json'), 'utf8');
  release({ integrity });
  expect(use()).toBe(true);
  expect(readFileSync(join(folder.path, own, 'mtl_kernels.node'), 'utf8')).toBe('addon');
  expect(readFileSync(join(folder.path, own, 'package.json'), 'utf8')).toBe(manifest);
  release({ version: '9.9.9', integrity });
  rmSync(join(folder.path, own, 'mtl_kernels.node'));
  expect(use()).toBe(false);
  expect(said.at(-1)).toContain('9.9.9 cannot be downloaded: compiling');
});
