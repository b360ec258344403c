import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { loadNativeAddon } from './load-native-addon.mjs';
import { lowestGlibc } from './lowest-glibc.mjs';

let folder;
const own = 'node_modules/@example/kernels';
const platform = `${own}-${process.platform}-${process.arch}`;
const local = `${own}/build/Release/addon.cjs`;

/**
 * The addons in this test are JavaScript files, because the order of the places does not depend on the
 * content.
 */
const load = (options = {}) =>
  loadNativeAddon({
    directory: `${folder.path}/${own}`,
    file: 'addon.cjs',
    explicit: undefined,
    command: 'example-build',
    needs: 'g++ and cmake',
    ...options,
  });
const addon = (name) => `module.exports = { name: '${name}' };`;

function writePlatformPackage({ version = '1.2.3', text = addon('platform') } = {}) {
  folder.write(`${platform}/package.json`, JSON.stringify({ version }));
  if (text !== null) folder.write(`${platform}/addon.cjs`, text);
}

beforeEach(() => {
  folder = testFolder('load-addon'); // a new one: Node.js remembers what it has loaded from a path
  folder.write(`${own}/package.json`, JSON.stringify({ name: '@example/kernels', version: '1.2.3' }));
});
afterEach(() => folder.remove());

describe('loadNativeAddon', () => {
  it('takes the file that is named, then the local build, then the platform package', () => {
    writePlatformPackage();
    folder.write('named.cjs', addon('named'));
    expect(load()).toEqual({
      addon: { name: 'platform' },
      path: expect.stringMatching(/kernels-\w+-\w+\/addon\.cjs$/),
    });
    folder.write(local, addon('local'));
    expect(load()).toEqual({ addon: { name: 'local' }, path: expect.stringMatching(/Release\/addon\.cjs$/) });
    expect(load({ explicit: `${folder.path}/named.cjs` }).addon).toEqual({ name: 'named' });
  });

  it('does not replace a broken local build by the platform package', () => {
    writePlatformPackage();
    folder.write(local, "throw new Error('libdnnl.so.2: cannot open shared object file');");
    const { addon: loaded, failures, remedy } = load();
    expect(loaded).toBeUndefined();
    expect(failures).toEqual([expect.stringMatching(/Release\/addon\.cjs: libdnnl\.so\.2: cannot open/)]);
    expect(remedy).toContain('npx example-build');
  });

  it('refuses an addon that cannot be used', () => {
    writePlatformPackage();
    const accept = ({ name }) => {
      throw new Error(`${name} is of other sources`);
    };
    expect(load({ accept }).failures).toEqual([expect.stringContaining('platform is of other sources')]);
  });

  it('names what to do where the platform package is not installed', () => {
    const { failures, remedy } = load();
    expect(failures).toEqual([
      expect.stringMatching(/Release\/addon\.cjs: not built$/),
      `@example/kernels-${process.platform}-${process.arch}: not installed`,
    ]);
    for (const text of [
      '--omit=optional',
      'remove node_modules and package-lock.json',
      'npx example-build',
      'needs g++ and cmake',
    ])
      expect(remedy).toContain(text);
  });

  it('refuses a platform package of another version', () => {
    writePlatformPackage({ version: '1.2.2' });
    const { failures, remedy } = load();
    expect(failures[1]).toContain('version 1.2.2, expected 1.2.3 as @example/kernels has');
    expect(remedy).toContain('remove node_modules and package-lock.json');
  });

  it('asks for the build alone where the platform package of a checkout holds no addon', () => {
    writePlatformPackage({ text: null });
    const { failures, remedy } = load();
    expect(failures[1]).toMatch(/addon\.cjs: not built$/);
    expect(remedy).toBe('npx example-build, or in a checkout npm run build:native (needs g++ and cmake)');
  });

  it('names the systems that the platform package runs on where glibc is older', () => {
    const reason = "/lib/libc.so.6: version `GLIBC_2.99' not found";
    writePlatformPackage({ text: `throw new Error(${JSON.stringify(reason)});` });
    const { failures, remedy } = load();
    expect(failures).toEqual([expect.stringContaining(reason)]);
    expect(remedy).toContain(`needs glibc ${lowestGlibc} (Debian 12`);
    expect(remedy).toContain('npx example-build');
  });
});
