import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  canInstall,
  installPackage,
  packPackages,
  publishedPackages,
  root,
  run,
  withDependencies,
} from './packed-packages.mjs';
import { readmeExample } from './readme-example.mjs';

const directory = mkdtempSync(join(tmpdir(), 'mtl-packaging-'));
const packages = publishedPackages();
const names = [...packages.keys()];
const folderOf = (name) => join(root, 'packages', name.slice('@mtl/'.length));
const exampleOf = (name) => readmeExample(join(folderOf(name), 'README.md'));
const isOnline = canInstall();
const whySkipped = isOnline ? '' : ' (skipped: neither the registry nor the cache of npm can be reached)';

let tarballs;
beforeAll(() => {
  tarballs = packPackages(join(directory, 'tarballs'));
}, 120_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('a packed package', () => {
  const checkTypes = (tarball) =>
    // every package is ESM only: Node 20.19 can require() it, and TypeScript's resolution before Node 16 is not served
    run('attw', [tarball, '--profile', 'esm-only', '--no-emoji', '--no-color']);

  it.each(names)('%s passes publint', (name) => {
    const { status, output } = run('publint', ['run', tarballs.get(name), '--strict']);
    expect(status, output).toBe(0);
  });

  it.each(names)('%s passes are-the-types-wrong', (name) => {
    const { status, output } = checkTypes(tarballs.get(name));
    expect(status, output).toBe(0);
    expect(output).toContain('OK (ESM)'); // a package without types would pass as well
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

  it('fails publint and are-the-types-wrong when it is broken', () => {
    const broken = join(directory, 'broken');
    run('mkdir', ['-p', broken]);
    run('tar', ['xf', tarballs.get('@mtl/errors'), '-C', broken]);
    const types = join(broken, 'package', 'dist', 'index.d.ts');
    const tarball = join(directory, 'broken.tgz');
    writeFileSync(types, "export * from './missing.js';\n");
    run('tar', ['czf', tarball, '-C', broken, 'package']);
    expect(checkTypes(tarball).output).toContain('Internal resolution error');
    expect(checkTypes(tarball).status).not.toBe(0);
    rmSync(types);
    run('tar', ['czf', tarball, '-C', broken, 'package']);
    expect(run('publint', ['run', tarball, '--strict']).status).not.toBe(0);
  });
});

describe.runIf(isOnline)(`an installed package${whySkipped}`, () => {
  const compiling = 480_000; // a minute of two free cores, several of busy ones
  let addon;

  /** Compiled once, by the command that users run; other examples load what came out through MTL_KERNELS_ADDON. */
  function compiledAddon() {
    if (addon !== undefined) return addon;
    const folder = join(directory, 'kernels');
    const installed = installPackage({ name: '@mtl/kernels', tarballs, directory: folder });
    const built = run(join(folder, 'node_modules', '.bin', 'mtl-kernels-build'), [], { cwd: folder });
    if (built.status !== 0) throw new Error(built.output);
    addon = join(installed, 'build', 'Release', 'mtl_kernels.node');
    return addon;
  }

  it(
    '@mtl/kernels finds the addon that mtl-kernels-build compiled',
    () => {
      expect(existsSync(compiledAddon())).toBe(true);
      runExample({
        name: '@mtl/kernels',
        folder: join(directory, 'kernels'),
        env: { MTL_KERNELS_ADDON: undefined },
      });
    },
    compiling,
  );

  it(
    '@mtl/comm finds the addon that mtl-comm-build compiled',
    () => {
      const folder = join(directory, 'comm');
      installPackage({ name: '@mtl/comm', tarballs, directory: folder });
      const program = `import { NativeJob } from '@mtl/comm';
        import { Tensor } from '@mtl/kernels';
        const job = new NativeJob(0);
        job.createHostBoard([0]);
        job.joinHost({ timeoutMs: 1000, graceMs: 1000 });
        const group = job.createLocalGroup({ name: 'alone', ranks: [0], timeoutMs: 1000 });
        const tensor = Tensor.from([1, 2], { shape: [2], dtype: 'float32' });
        group.allReduce(tensor).wait();
        console.log(tensor.toArray());
        job.close();`;
      writeFileSync(join(folder, 'program.mjs'), program);
      const env = { MTL_KERNELS_ADDON: compiledAddon(), MTL_COMM_ADDON: undefined };
      const start = () => run(process.execPath, ['program.mjs'], { cwd: folder, env });
      const missing = start();
      expect(missing.status).not.toBe(0);
      expect(missing.output).toContain('npx mtl-comm-build');
      const built = run(join(folder, 'node_modules', '.bin', 'mtl-comm-build'), [], { cwd: folder });
      expect(built.status, built.output).toBe(0);
      const { status, stdout, output } = start();
      expect(status, output).toBe(0);
      expect(stdout).toBe('[ 1, 2 ]\n');
    },
    compiling,
  );

  it('@mtl/kernels names the remedy where nothing was compiled', () => {
    const folder = join(directory, 'uncompiled');
    installPackage({ name: '@mtl/kernels', tarballs, directory: folder });
    writeFileSync(join(folder, 'example.mjs'), exampleOf('@mtl/kernels').code);
    const { status, output } = run(process.execPath, ['example.mjs'], {
      cwd: folder,
      env: { MTL_KERNELS_ADDON: undefined },
    });
    expect(status).not.toBe(0);
    expect(output).toContain('npx mtl-kernels-build');
  });

  it.each(names)(
    '%s works alone: only what it depends on is there, and the example of its README runs',
    (name) => {
      const folder = join(directory, 'alone', name.slice('@mtl/'.length));
      const installed = installPackage({ name, tarballs, directory: folder });
      const below = withDependencies(name);
      for (const other of names) {
        expect(existsSync(join(folder, 'node_modules', other)), other).toBe(below.includes(other));
      }
      const imported = run(process.execPath, ['--input-type=module', '-e', `await import('${name}')`], {
        cwd: folder,
      });
      expect(imported.status, imported.output).toBe(0);
      expect(readFileSync(join(installed, 'README.md'), 'utf8')).toBe(
        readFileSync(join(folderOf(name), 'README.md'), 'utf8'),
      );
      const env = below.includes('@mtl/kernels') ? { MTL_KERNELS_ADDON: compiledAddon() } : {};
      const programs = Object.keys(packages.get(name).bin ?? {});
      for (const program of programs) {
        const help = run(join(folder, 'node_modules', '.bin', program), ['--help'], { cwd: folder, env });
        expect(help.status, help.output).toBe(0);
      }
      // what a program shows in its README is not TypeScript
      if (programs.length === 0 || exampleOf(name) !== undefined) runExample({ name, folder, env });
    },
    compiling,
  );

  function runExample({ name, folder, env }) {
    const example = readmeExample(join(folder, 'node_modules', name, 'README.md'));
    expect(example, `a ts block in the README of ${name}`).toBeDefined();
    const { code, output: expected } = example;
    writeFileSync(join(folder, 'example.mjs'), code);
    const { status, stdout, output } = run(process.execPath, ['example.mjs'], { cwd: folder, env });
    expect(status, output).toBe(0);
    if (expected === undefined) expect(stdout).not.toBe('');
    else expect(stdout).toBe(expected);
  }
});
