import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  canInstall,
  installPackage,
  packLocalBuilds,
  packPackages,
  publishedPackages,
  root,
  run,
  runConcurrently,
  withDependencies,
} from './packed-packages.mjs';
import { readmeExample } from './readme-example.mjs';
import { typeErrors } from './type-errors.mjs';

const directory = mkdtempSync(join(tmpdir(), 'mtl-packaging-'));
const packages = publishedPackages();
const names = [...packages.keys()];
const locateFolder = (name) => join(root, 'packages', name.slice('@mtl/'.length));
const readExample = (name) => readmeExample(join(locateFolder(name), 'README.md'));
const isOnline = canInstall();
const whySkipped = isOnline ? '' : ' (skipped: neither the registry nor the cache of npm can be reached)';

let tarballs;
beforeAll(() => {
  const folder = join(directory, 'tarballs');
  tarballs = new Map([...packPackages(folder), ...packLocalBuilds(folder)]);
}, 480_000); // twenty seconds of a free machine, minutes of a busy one
afterAll(() => rmSync(directory, { recursive: true, force: true }));

// commands use one core each, except compilers
describe.concurrent('a packed package', () => {
  const checkTypes = (tarball) =>
    // every package is ESM only: Node 20.19 can require() it, and TypeScript's module resolution for versions
    // before Node 16 is not supported
    runConcurrently('attw', [tarball, '--profile', 'esm-only', '--no-emoji', '--no-color']);

  it.each(names)('%s passes publint', async (name) => {
    const { status, output } = await runConcurrently('publint', ['run', tarballs.get(name), '--strict']);
    expect(status, output).toBe(0);
  });

  it.each(names)('%s passes are-the-types-wrong', async (name) => {
    const { status, output } = await checkTypes(tarballs.get(name));
    expect(status, output).toBe(0);
    expect(output).toContain('OK (ESM)'); // without this check, a package without types would pass, too
  });

  it.each(names)('%s holds no trace of the workspace', (name) => {
    const text = run('tar', ['xOf', tarballs.get(name), 'package/package.json']).stdout;
    const manifest = JSON.parse(text);
    expect(JSON.stringify(manifest.exports)).not.toContain('@mtl/source');
    expect(JSON.stringify(manifest.dependencies)).not.toContain('workspace:');
    for (const [dependency, { version }] of packages) {
      const wanted = manifest.dependencies[dependency];
      if (wanted !== undefined) expect(wanted).toBe(version);
    }
    for (const hook of ['preinstall', 'install', 'postinstall'])
      expect(manifest.scripts?.[hook]).toBeUndefined();
  });

  it('@mtl/kernels holds its native sources without tests and without the emulation of CUDA', () => {
    const files = run('tar', ['tf', tarballs.get('@mtl/kernels')]).stdout.split('\n');
    expect(files).toContain('package/native/backends/cuda/library.cc');
    expect(files.filter((path) => /emulat|\/tests?\//.test(path))).toEqual([]);
  });

  it('fails publint and are-the-types-wrong when it is broken', async () => {
    const broken = join(directory, 'broken');
    run('mkdir', ['-p', broken]);
    run('tar', ['xf', tarballs.get('@mtl/errors'), '-C', broken]);
    const types = join(broken, 'package', 'dist', 'index.d.ts');
    const tarball = join(directory, 'broken.tgz');
    writeFileSync(types, "export * from './missing.js';\n");
    run('tar', ['czf', tarball, '-C', broken, 'package']);
    const { status, output } = await checkTypes(tarball);
    expect(output).toContain('Internal resolution error');
    expect(status).not.toBe(0);
    rmSync(types);
    run('tar', ['czf', tarball, '-C', broken, 'package']);
    expect((await runConcurrently('publint', ['run', tarball, '--strict'])).status).not.toBe(0);
  });
});

describe.concurrent.runIf(isOnline)(`an installed package${whySkipped}`, () => {
  const compiling = 480_000; // a minute of two free cores, several of busy ones
  /** Returns options that make a compiler cache reuse the checkout's results for paths below `folder`. */
  const compilingIn = (folder) => ({ cwd: folder, env: { CCACHE_BASEDIR: folder } });
  let addon;
  const installs = new Map();

  /** Installs a package alone, only once for all tests that do not change it. Returns the folder. */
  function installedAlone(name) {
    const folder = join(directory, 'alone', name.slice('@mtl/'.length));
    const install = installs.get(name) ?? installPackage({ name, tarballs, directory: folder });
    installs.set(name, install);
    return install.then(() => folder);
  }

  /** Compiles the addon once, with the command that users run. */
  function compiledAddon() {
    addon ??= compileAddon();
    return addon;
  }

  async function compileAddon() {
    const folder = join(directory, 'kernels');
    const installed = await installPackage({ name: '@mtl/kernels', tarballs, directory: folder });
    const program = join(folder, 'node_modules', '.bin', 'mtl-kernels-build');
    const built = await runConcurrently(program, [], compilingIn(folder));
    if (built.status !== 0) throw new Error(built.output);
    return join(installed, 'build', 'Release', 'mtl_kernels.node');
  }

  it(
    '@mtl/kernels finds the addon that mtl-kernels-build compiled',
    async () => {
      expect(existsSync(await compiledAddon())).toBe(true);
      await runExample({
        name: '@mtl/kernels',
        folder: join(directory, 'kernels'),
        env: { MTL_KERNELS_ADDON: undefined },
      });
    },
    compiling,
  );

  it(
    '@mtl/comm finds the addon that mtl-comm-build compiled',
    async () => {
      const folder = join(directory, 'comm');
      await installPackage({ name: '@mtl/comm', tarballs, directory: folder, withPlatform: false });
      const example = `import { NativeJob } from '@mtl/comm/launcher';
        import { Tensor } from '@mtl/kernels';
        const job = new NativeJob(0);
        job.createHostBoard([0]);
        job.joinHost({ timeoutMs: 1000, graceMs: 1000 });
        const group = job.createLocalGroup({ name: 'alone', ranks: [0], timeoutMs: 1000 });
        const tensor = Tensor.from([1, 2], { shape: [2], dtype: 'float32' });
        group.allReduce(tensor).wait();
        console.log(tensor.toArray());
        job.close();`;
      writeFileSync(join(folder, 'program.mjs'), example);
      const env = { MTL_KERNELS_ADDON: await compiledAddon(), MTL_COMM_ADDON: undefined };
      const start = () => runConcurrently(process.execPath, ['program.mjs'], { cwd: folder, env });
      const missing = await start();
      expect(missing.status).not.toBe(0);
      expect(missing.output).toContain('npx mtl-comm-build');
      const program = join(folder, 'node_modules', '.bin', 'mtl-comm-build');
      const built = await runConcurrently(program, [], compilingIn(folder));
      expect(built.status, built.output).toBe(0);
      const { status, stdout, output } = await start();
      expect(status, output).toBe(0);
      expect(stdout).toBe('[ 1, 2 ]\n');
    },
    compiling,
  );

  it('@mtl/kernels names the remedy where nothing was compiled and the platform package left out', async () => {
    const folder = join(directory, 'without-platform-package');
    await installPackage({ name: '@mtl/kernels', tarballs, directory: folder, withPlatform: false });
    writeFileSync(join(folder, 'uncompiled.mjs'), readExample('@mtl/kernels').code);
    const { status, output } = await runConcurrently(process.execPath, ['uncompiled.mjs'], {
      cwd: folder,
      env: { MTL_KERNELS_ADDON: undefined },
    });
    expect(status).not.toBe(0);
    expect(output).toContain('npx mtl-kernels-build');
    expect(output).toContain('kernels-linux-x64: not installed');
    expect(output).toContain('remove node_modules and package-lock.json');
  });

  it('@mtl/errors: an example with wrong types is found', async () => {
    const path = join(await installedAlone('@mtl/errors'), 'wrong-types.mts');
    writeFileSync(path, "import { nearestName } from '@mtl/errors';\nnearestName(1, ['one']).length;\n");
    expect(typeErrors([path])).toEqual([
      "wrong-types.mts, line 2: Object is possibly 'undefined'.",
      "wrong-types.mts, line 2: Argument of type 'number' is not assignable to parameter of type 'string'.",
    ]);
  });

  it('@mtl/errors: its example runs as READMEs say', async () => {
    const folder = join(await installedAlone('@mtl/errors'), 'with-tsx');
    mkdirSync(folder);
    const { source, output: expected } = readExample('@mtl/errors');
    writeFileSync(join(folder, 'example.mts'), source);
    const { status, stdout, output } = await runConcurrently('npx', ['--yes', 'tsx', 'example.mts'], {
      cwd: folder,
    });
    expect(status, output).toBe(0);
    expect(stdout).toBe(expected);
  });

  it.each(names)(
    '%s works alone: only what it depends on is there, and the example of its README has right types and runs',
    async (name) => {
      const folder = await installedAlone(name);
      const installed = join(folder, 'node_modules', name);
      const below = withDependencies(name);
      for (const other of names) {
        expect(existsSync(join(folder, 'node_modules', other)), other).toBe(below.includes(other));
      }
      const imported = await runConcurrently(
        process.execPath,
        ['--input-type=module', '-e', `await import('${name}')`],
        {
          cwd: folder,
        },
      );
      expect(imported.status, imported.output).toBe(0);
      expect(readFileSync(join(installed, 'README.md'), 'utf8')).toBe(
        readFileSync(join(locateFolder(name), 'README.md'), 'utf8'),
      );
      // addons must come from the platform packages
      const env = { MTL_KERNELS_ADDON: undefined, MTL_COMM_ADDON: undefined };
      const programs = Object.keys(packages.get(name).bin ?? {});
      for (const program of programs) {
        const command = join(folder, 'node_modules', '.bin', program);
        const help = await runConcurrently(command, ['--help'], { cwd: folder, env });
        expect(help.status, help.output).toBe(0);
      }
      // the example in a program's README is not TypeScript
      if (programs.length === 0 || readExample(name) !== undefined) await runExample({ name, folder, env });
    },
    compiling,
  );

  async function runExample({ name, folder, env }) {
    const example = readmeExample(join(folder, 'node_modules', name, 'README.md'));
    expect(example, `a ts block in the README of ${name}`).toBeDefined();
    const { source, code, output: expected, isIntroduced } = example;
    expect(isIntroduced, `the README of ${name} explains how its example is run`).toBe(true);
    writeFileSync(join(folder, 'example.mts'), source);
    expect(typeErrors([join(folder, 'example.mts')])).toEqual([]);
    writeFileSync(join(folder, 'example.mjs'), code);
    const { status, stdout, output } = await runConcurrently(process.execPath, ['example.mjs'], {
      cwd: folder,
      env,
    });
    expect(status, output).toBe(0);
    if (expected === undefined) expect(stdout).not.toBe('');
    else expect(stdout).toBe(expected);
  }
});
