import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { instructionSetNames } from './instruction-sets.mjs';

const buildScript = fileURLToPath(new URL('build-native.mjs', import.meta.url));
const { path: folder, remove } = testFolder('native-build');
afterAll(remove);
afterEach(() => vi.unstubAllEnvs());

/**
 * Makes a package that can be built without a compiler. Its only target writes the path of the folder in
 * which it is built.
 */
function makePackage(name, project = 'made') {
  const path = join(folder, name);
  mkdirSync(path);
  const target = `add_custom_target(place ALL \${CMAKE_COMMAND} -E echo \${CMAKE_CURRENT_SOURCE_DIR} > place.txt)`;
  const lines = ['cmake_minimum_required(VERSION 3.18)', `project(${project} LANGUAGES NONE)`, target];
  writeFileSync(join(path, 'CMakeLists.txt'), `${lines.join('\n')}\n`);
  return path;
}

const build = (cwd, ...args) =>
  spawnSync(process.execPath, [buildScript, ...args], { cwd, encoding: 'utf8' });
const readPlace = (path) => readFileSync(join(path, 'build/Release/place.txt'), 'utf8').trim();

describe('build-native.mjs', () => {
  it('builds in a folder that was copied or moved after a build', () => {
    const path = makePackage('first');
    expect(build(path)).toMatchObject({ status: 0, stderr: '' });
    expect(readPlace(path)).toBe(path);

    const copy = join(folder, 'copy');
    cpSync(path, copy, { recursive: true });
    const copied = build(copy);
    expect(copied).toMatchObject({ status: 0, stderr: '' });
    expect(copied.stdout).toContain(
      `build/Release was configured in ${path}/build/Release: configuring it again`,
    );
    expect(readPlace(copy)).toBe(copy);

    const moved = join(folder, 'moved');
    renameSync(copy, moved);
    expect(build(moved)).toMatchObject({ status: 0, stderr: '' });
    expect(readPlace(moved)).toBe(moved);

    const again = build(path);
    expect(again).toMatchObject({ status: 0, stderr: '' });
    expect(again.stdout).not.toContain('configured in');
  });

  it(
    'leaves the addon in place, whole, while it links a new one',
    { tags: ['whole'] },
    async () => {
      const path = join(folder, 'linked');
      mkdirSync(path);
      const lines = [
        ...[
          'cmake_minimum_required(VERSION 3.18)',
          'project(made LANGUAGES CXX)',
          'add_library(made MODULE made.cc)',
        ],
        'set_target_properties(made PROPERTIES PREFIX "" SUFFIX ".node")',
      ];
      writeFileSync(join(path, 'CMakeLists.txt'), `${lines.join('\n')}\n`);
      // this linker removes its output first, and then takes a long time
      const compiler = join(path, 'slow-compiler');
      const script = `#!/bin/sh
case " $* " in *" -shared "*) for word; do [ "$last" = -o ] && rm -f "$word" && sleep 1; last=$word; done ;; esac
exec c++ "$@"
`;
      writeFileSync(compiler, script, { mode: 0o755 });
      vi.stubEnv('CXX', compiler);
      const write = (number) => writeFileSync(join(path, 'made.cc'), `int made() { return ${number}; }\n`);
      write(1);
      expect(build(path)).toMatchObject({ status: 0, stderr: '' });
      const addon = join(path, 'build/Release/made.node');
      const first = readFileSync(addon);
      write(2);
      const child = spawn(process.execPath, [buildScript], { cwd: path });
      const missing = [];
      let isOver = false;
      child.on('exit', () => {
        isOver = true;
      });
      while (!isOver) {
        if (!existsSync(addon)) missing.push('missing');
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      expect(missing).toEqual([]);
      expect(child.exitCode).toBe(0);
      expect(readFileSync(addon).equals(first)).toBe(false);
    },
    120_000,
  );

  it('compiles for this machine alone only in a new folder, and on request', () => {
    const path = makePackage('sets');
    const buildSets = (asked) => {
      vi.stubEnv('MTL_INSTRUCTION_SETS', asked);
      expect(build(path)).toMatchObject({ status: 0, stderr: '' });
      const cache = readFileSync(join(path, 'build/Release/CMakeCache.txt'), 'utf8');
      return /^MTL_INSTRUCTION_SETS:[A-Z]+=(.*)$/m.exec(cache)?.[1];
    };
    const machine = buildSets('machine');
    expect(instructionSetNames()).toContain(machine);
    expect(buildSets('machine')).toBe(machine);
    expect(buildSets('')).toBe('all');
    expect(buildSets('machine')).toBe('all');
  });

  it('leaves the build folder of another project alone', () => {
    const [path, other] = [makePackage('own'), makePackage('other', 'another')];
    expect(build(other).status).toBe(0);
    const refused = build(path, '--build-dir', join(other, 'build/Release'));
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain(
      `${other}/build/Release is the build folder of another project (another, in`,
    );
    expect(refused.stderr).toContain('remedy: pass another folder with --build-dir');
    expect(readPlace(other)).toBe(other);
  });

  it('prints what it takes with --help, and builds nothing', () => {
    const path = makePackage('unbuilt');
    for (const flag of ['--help', '-h']) {
      const { status, stdout, stderr } = build(path, flag);
      expect(stdout).toContain('usage: build-native.mjs [--build-dir DIRECTORY] [--target NAME]');
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    }
    expect(existsSync(join(path, 'build'))).toBe(false);
  });

  it.each(['kernels', 'comm'])('prints the help of mtl-%s-build', (name) => {
    const addon = fileURLToPath(new URL(`../../packages/${name}/native/build-addon.mjs`, import.meta.url));
    const { status, stdout } = spawnSync(process.execPath, [addon, '--help'], { encoding: 'utf8' });
    expect(stdout).toMatch(new RegExp(`^usage: mtl-${name}-build \\[--build-dir`));
    expect(status).toBe(0);
  });
});
