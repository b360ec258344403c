import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { lowestGlibc } from '../native/lowest-glibc.mjs';
import { sourceHash } from '../native/source-hash.mjs';
import { publishedPackages, root, run } from '../packaging/packed-packages.mjs';
import { testFolder } from '../processes/test-folder.mjs';
import { checkPlatformPackage, libraryProblems, manifestProblems } from './check-platform-package.mjs';
import { startRegistry } from './local-registry.mjs';
import { platformFolders, platformFoldersHere } from './platform-folders.mjs';
import { publishOrder } from './publish-order.mjs';
import { isAbove } from './read-dynamic.mjs';
import { chooseDistTag, releaseProblems, versionProblems } from './release-problems.mjs';

const folder = testFolder('release');
afterAll(folder.remove);
const platforms = platformFolders(root);
const packages = publishedPackages();

/** Compiles a C source to a shared library, and returns its path. */
function compiled(name, source, flags = []) {
  folder.write(`${name}.c`, source);
  const path = join(folder.path, `${name}.so`);
  const { status, output } = run('cc', [
    '-shared',
    '-fPIC',
    join(folder.path, `${name}.c`),
    ...flags,
    '-o',
    path,
  ]);
  expect(status, output).toBe(0);
  return path;
}
const addon = 'void *napi_register_module_v1(void) { return 0; }\n';

describe('platform packages', () => {
  it.each(platforms.map(({ name }) => name))(
    '%s: its manifest is what package managers select by',
    (name) => {
      const { manifest, packageOf, isAddon } = platforms.find((platform) => platform.name === name);
      const { version, optionalDependencies } = packages.get(`@mtl/${packageOf}`);
      expect(manifestProblems(manifest, version)).toEqual([]);
      // when pnpm packs a package, it replaces `workspace:*` by the exact version; users with a GPU install
      // the CUDA library explicitly
      expect(optionalDependencies[name]).toBe(isAddon ? 'workspace:*' : undefined);
    },
  );

  it('are refused with a manifest that is wrong', () => {
    const [{ manifest, name }] = platformFoldersHere(root);
    const wrong = { ...manifest, os: ['darwin'], cpu: undefined, libc: undefined, version: '0.0.1' };
    wrong.scripts = { postinstall: 'node install.js' };
    wrong.dependencies = { other: '1.0.0' };
    expect(manifestProblems(wrong, '0.1.0').map((problem) => problem.slice(name.length + 2))).toEqual([
      '"os" is not ["linux"]',
      '"cpu" is not ["x64"]',
      '"libc" is not ["glibc"]',
      'version 0.0.1, expected 0.1.0',
      'has the install script postinstall',
      'needs other',
    ]);
  });

  it('are not packed before they are built', () => {
    const [{ manifest }] = platformFoldersHere(root);
    folder.write('unbuilt/package.json', JSON.stringify(manifest));
    const script = join(root, 'tooling/release/refuse-empty-platform.mjs');
    const { status, output } = run(process.execPath, [script], { cwd: join(folder.path, 'unbuilt') });
    expect(status).toBe(2);
    expect(output).toContain(`error[MTL_PACK]: ${manifest.name} lacks`);
  });
});

describe('the package of the CUDA library, with a library that stands in', () => {
  const platform = platforms.find(({ part }) => part === 'kernels-cuda');
  const directory = join(folder.path, 'cuda');
  const source = 'int GOMP_parallel(void);\nint mtl_cuda_library(void) { return GOMP_parallel(); }\n';

  function writePackage(librarySource, { licenses = true } = {}) {
    // the symbol has a version, as the symbols of libgomp do
    folder.write('gomp.map', 'GOMP_1.0 { global: GOMP_parallel; };\n');
    const versions = `-Wl,-soname,libgomp.so.1,--version-script=${join(folder.path, 'gomp.map')}`;
    const gomp = compiled('gomp', 'int GOMP_parallel(void) { return 1; }\n', [versions]);
    const library = compiled('stand-in', librarySource, ['-Wl,-rpath,$ORIGIN', gomp]);
    rmSync(directory, { recursive: true, force: true });
    folder.write('cuda/README.md', 'text');
    folder.write('cuda/built-from.json', '{ "libraries": [] }');
    if (licenses) folder.write('cuda/licenses/GPL-3', 'text');
    cpSync(gomp, join(directory, 'libgomp.so.1'));
    cpSync(library, join(directory, 'libmtl_cuda.so'));
    return { ...platform, directory };
  }

  it('passes the check', () => {
    expect(() => checkPlatformPackage(writePackage(source))).not.toThrow();
  });

  it('is refused with what else it offers, without a licence, and above 40 MB', () => {
    const runtime = `${source}int cudaMalloc(void) { return 0; }\n`;
    expect(() => checkPlatformPackage(writePackage(runtime))).toThrow(
      'offers 1 symbols to others, such as cudaMalloc',
    );
    expect(() => checkPlatformPackage(writePackage(source, { licenses: false }))).toThrow(
      'licenses is missing',
    );
    const large = writePackage(source);
    truncateSync(join(directory, 'libmtl_cuda.so'), 41e6);
    expect(() => checkPlatformPackage(large)).toThrow('41.0 MB, at most 40');
  });

  it('npm run dev -- build:platform refuses a part that is none', () => {
    const script = join(root, 'tooling/release/build-platform.mjs');
    const { status, output } = run(process.execPath, [script, 'cuda']);
    expect(status).toBe(2);
    expect(output).toContain('unknown part cuda; expected comm, kernels-cuda, kernels');
  });
});

describe('what a library needs from a machine', () => {
  it('accepts an addon that needs glibc alone', () => {
    expect(libraryProblems(compiled('fine', addon))).toEqual([]);
  });

  it('finds libraries of others, newer symbols, symbols offered and symbols missing', () => {
    const source = `${addon}int gone(void); int extra(void) { return gone(); }\n`;
    const path = compiled('wrong', source, ['-Wl,--no-as-needed', '-l:libstdc++.so.6']);
    expect(libraryProblems(path)).toEqual([
      `${path} lacks gone`,
      `${path} needs libstdc++.so.6, which a bare machine does not have`,
      `${path} offers 1 symbols to others, such as extra`,
    ]);
    folder.write('later.map', 'GLIBC_2.99 { global: later; };\n');
    const script = join(folder.path, 'later.map');
    const flags = [`-Wl,--version-script=${script}`, '-Wl,-soname,libc.so.6'];
    const stub = compiled('newer', 'int later(void) { return 0; }\n', flags);
    const newer = compiled('user', `${addon}int later(void); int use(void) { return later(); }\n`, [stub]);
    expect(libraryProblems(newer)).toContain(`${newer} needs GLIBC_2.99; at most GLIBC_${lowestGlibc}`);
  });

  it('asks for a run path where a library is bundled', () => {
    const bundled = compiled('libpart', 'int part(void) { return 1; }\n', ['-Wl,-soname,libpart.so']);
    const source = 'int part(void); void *napi_register_module_v1(void) { return part() ? 0 : 0; }\n';
    const problems = (flags) =>
      libraryProblems(compiled('whole', source, [...flags, bundled]), { bundled: ['libpart.so'] });
    expect(problems([])).toContainEqual(
      expect.stringMatching(/does not look for libpart\.so next to itself/),
    );
    expect(problems(['-Wl,-rpath,$ORIGIN'])).not.toContainEqual(expect.stringMatching(/next to itself/));
  });

  it.each([
    ['2.35', '2.34', true],
    ['2.4', '2.34', false],
    ['2.34', '2.34', false],
    ['2.2.5', '2.34', false],
    ['3.0', '2.34', true],
    ['2.34.1', '2.34', true],
  ])('%s is above %s: %s', (version, limit, expected) => {
    expect(isAbove(version, limit)).toBe(expected);
  });
});

describe('the hash of native sources', () => {
  it('changes with sources and headers of other packages, not with tests', () => {
    for (const name of ['kernels', 'comm']) {
      for (const path of ['CMakeLists.txt', 'package.json', 'native/include'])
        if (existsSync(join(root, 'packages', name, path)))
          cpSync(join(root, 'packages', name, path), join(folder.path, 'hash/packages', name, path), {
            recursive: true,
          });
      mkdirSync(join(folder.path, 'hash/packages', name, 'native'), { recursive: true });
    }
    const write = (path, text) => folder.write(`hash/packages/${path}`, text);
    const hash = (name = 'kernels') => sourceHash({ root: join(folder.path, 'hash'), name });
    write('kernels/native/core/a.cc', 'one');
    const [first, comm] = [hash(), hash('comm')];
    write('kernels/native/tests/a_test.cc', 'test');
    write('kernels/native/build-addon.mjs', 'command');
    expect(hash()).toBe(first);
    write('kernels/native/core/a.cc', 'two');
    expect(hash()).not.toBe(first);
    expect(hash('comm')).toBe(comm);
    write('kernels/native/include/mtl/more.h', 'header');
    expect(hash('comm')).not.toBe(comm);
  });
});

describe('what is published', () => {
  const manifests = [...packages.values(), ...platforms.map(({ manifest }) => manifest)];

  it('is public and has provenance', () => {
    expect(releaseProblems({ manifests, isDry: true, changes: '' })).toEqual([]);
  });

  it('is not published from changed files, without provenance, or without the repository it needs', () => {
    const manifest = { name: '@mtl/one', publishConfig: { access: 'public' } };
    const problems = releaseProblems({ manifests: [manifest], isDry: false, changes: ' M README.md' });
    expect(problems).toEqual([
      'the checkout has changes, commit them:\n M README.md',
      '@mtl/one: "publishConfig" has no "provenance": true',
      '@mtl/one: "repository" is missing, which provenance needs',
    ]);
  });
});

describe('versions', () => {
  it('are one, the version of the tag', () => {
    const versions = ['0.1.0-alpha.0', '0.1.0-alpha.0'];
    expect(versionProblems({ versions, tag: undefined })).toEqual([]);
    expect(versionProblems({ versions, tag: 'v0.1.0-alpha.0' })).toEqual([]);
    expect(versionProblems({ versions, tag: 'v0.1.0' })).toEqual([
      'the tag is v0.1.0, the changesets make v0.1.0-alpha.0: tag that',
    ]);
    expect(versionProblems({ versions: ['0.1.0', '0.1.1'], tag: undefined })).toEqual([
      'packages have several versions: 0.1.0, 0.1.1',
    ]);
  });

  it('are found by npm as what they are', () => {
    expect(['0.1.0-alpha.0', '1.0.0-rc.2', '0.1.0'].map(chooseDistTag)).toEqual(['alpha', 'rc', 'latest']);
  });
});

describe('the order of publishing', () => {
  it('has every package behind what it needs, and platform packages first', () => {
    const manifests = [...packages.values(), ...platforms.map(({ manifest }) => manifest)];
    const order = publishOrder(manifests);
    expect([...order].sort()).toEqual(manifests.map(({ name }) => name).sort());
    expect(order.slice(0, platforms.length).sort()).toEqual(platforms.map(({ name }) => name).sort());
    for (const { name, dependencies = {}, optionalDependencies = {} } of manifests) {
      for (const needed of Object.keys({ ...dependencies, ...optionalDependencies }).filter((each) =>
        order.includes(each),
      ))
        expect(order.indexOf(needed), `${needed} before ${name}`).toBeLessThan(order.indexOf(name));
    }
  });

  it('refuses a circle', () => {
    const circle = [
      { name: 'a', dependencies: { b: '1.0.0' } },
      { name: 'b', dependencies: { a: '1.0.0' } },
    ];
    expect(() => publishOrder(circle)).toThrow('needs itself');
  });
});

it('the local registry serves tarballs as npm expects them', async () => {
  folder.write('packed/package/package.json', '{ "name": "@example/one", "version": "1.2.3" }');
  const tarballs = join(folder.path, 'tarballs');
  mkdirSync(tarballs);
  spawnSync('tar', ['czf', join(tarballs, 'one.tgz'), '-C', join(folder.path, 'packed'), 'package']);
  writeFileSync(join(tarballs, 'notes.txt'), 'not a tarball');
  const server = await startRegistry({ folders: [tarballs] });
  try {
    const url = `http://127.0.0.1:${server.address().port}`;
    const found = await (await fetch(`${url}/@example%2fone`)).json();
    expect(found['dist-tags']).toEqual({ latest: '1.2.3' });
    const { tarball, integrity } = found.versions['1.2.3'].dist;
    const bytes = Buffer.from(await (await fetch(tarball)).arrayBuffer());
    const digest = await crypto.subtle.digest('SHA-512', bytes);
    expect(integrity).toBe(`sha512-${Buffer.from(digest).toString('base64')}`);
    expect((await fetch(`${url}/unknown`)).status).toBe(404);
  } finally {
    server.close();
  }
});
