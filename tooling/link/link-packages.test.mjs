import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root } from '../bootstrap/bootstrap.mjs';
import { readmeExample } from '../packaging/readme-example.mjs';
import { typeErrors } from '../packaging/type-errors.mjs';
import { testFolder } from '../processes/test-folder.mjs';
import { linkPackages } from './link-packages.mjs';

const { path: folder, write, remove } = testFolder('link-packages');
afterAll(remove);

const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
const run = (command, args) => {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: folder,
    env: { ...environment, NODE_OPTIONS: '', NODE_PATH: '' },
    encoding: 'utf8',
  });
  return { status, stdout, output: `${stdout}${stderr}` };
};

/**
 * Returns the files of the checkout's packages that npm could remove: sources, builds, and dependencies.
 * Files that further tests write and remove at the same time are not included.
 */
function filesOfPackages() {
  const { stdout } = spawnSync('git', ['ls-files', 'packages'], { cwd: root, encoding: 'utf8' });
  const folders = readdirSync(join(root, 'packages')).map((name) => join('packages', name));
  const listEntries = (folder) => readdirSync(join(root, folder)).map((name) => join(folder, name));
  const others = folders.flatMap((folder) => [
    join(folder, 'dist', 'index.js'),
    join(folder, 'dist', 'index.d.ts'),
    ...listEntries(join(folder, 'node_modules')),
    ...listEntries(join(folder, 'node_modules', '@mtl')),
  ]);
  return [...stdout.trim().split('\n'), ...others].filter((path) => existsSync(join(root, path)));
}

/** Returns the elements of `paths` that no longer exist. */
const listMissing = (paths) => paths.filter((path) => !existsSync(join(root, path)));

/**
 * Writes a package that is not part of this project to a separate folder, from which npm installs it without
 * a registry.
 */
function writeOther(name) {
  write(
    `${name}/package.json`,
    JSON.stringify({ name, version: '1.0.0', type: 'module', exports: './index.js' }),
  );
  write(`${name}/index.js`, `export const name = '${name}';\n`);
}

const quiet = ['--offline', '--no-audit', '--no-fund', '--loglevel=error'];
const program = `import { nearestName } from '@mtl/errors';
import { ProcessMesh } from '@mtl/comm';
console.log(nearestName('cosin', ['cosine']), typeof ProcessMesh);
`;

let before;
beforeAll(() => {
  before = filesOfPackages();
  expect(before.length).toBeGreaterThan(2000);
  write(
    'package.json',
    JSON.stringify({ name: 'mine', type: 'module', dependencies: { first: 'file:first' } }),
  );
  for (const name of ['first', 'second']) writeOther(name);
  write('program.mjs', program);
  // makes links as described in older versions of the guides; npm follows such links
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(join(root, 'packages'), join(folder, 'node_modules', '@mtl'));
  linkPackages(folder);
  // npm must not get at the checkout
  const own = realpathSync(join(folder, 'node_modules', '@mtl', 'kernels'));
  if (own !== join(realpathSync(folder), 'mtl-packages', 'kernels')) throw new Error(`a direct link: ${own}`);
}, 120_000);

describe('a folder with the packages of the checkout', () => {
  const works = () => {
    const { status, stdout, output } = run(process.execPath, ['program.mjs']);
    expect(status, output).toBe(0);
    expect(stdout).toBe('cosine function\n');
  };

  it('imports them, next to its other packages', () => {
    works();
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    expect(dependencies).toMatchObject({ first: 'file:first', '@mtl/kernels': 'file:mtl-packages/kernels' });
    expect(run(join(folder, 'node_modules', '.bin', 'mtl'), ['--version']).stdout).toMatch(/^\d/);
  });

  it.each(['install --save-dev ./second', 'update', 'ci', 'prune', 'install --install-links'])(
    'survives npm %s, and so does the checkout',
    (words) => {
      const { status, output } = run('npm', [...words.split(' '), ...quiet]);
      expect(status, output).toBe(0);
      works();
      expect(listMissing(before)).toEqual([]);
    },
    60_000,
  );

  it('gives right types to the example of every README, under strict', () => {
    const paths = readdirSync(join(root, 'packages')).flatMap((name) => {
      const example = readmeExample(join(root, 'packages', name, 'README.md'));
      if (example === undefined) return [];
      const path = join(folder, `${name}.mts`);
      writeFileSync(path, example.source);
      return [path];
    });
    expect(paths.length).toBeGreaterThan(20);
    writeFileSync(
      join(folder, 'wrong.mts'),
      "import { Tensor } from '@mtl/kernels';\nconst x: string = Tensor;\nx;\n",
    );
    expect(typeErrors([...paths, join(folder, 'wrong.mts')], { checksDeclarations: true })).toEqual([
      "wrong.mts, line 2: Type 'typeof Tensor' is not assignable to type 'string'.",
    ]);
  }, 120_000);
});

it('has a command that refuses what is no folder elsewhere', () => {
  const link = join(root, 'tooling/link/link-packages.mjs');
  for (const [given, message] of [
    ['missing', 'does not exist'],
    [join(root, 'docs'), 'is in the checkout'],
    ['--save', 'is no folder'],
  ]) {
    const { status, output } = run(process.execPath, [link, given]);
    expect(status).toBe(2);
    expect(output).toContain(message);
  }
  write('taken/mtl-packages/notes.txt', 'of the user');
  const taken = run(process.execPath, [link, join(folder, 'taken')]);
  expect(taken.status).toBe(2);
  expect(taken.output).toContain('mtl-packages exists, and mtl-link has not made it');
  expect(existsSync(join(folder, 'taken', 'mtl-packages', 'notes.txt'))).toBe(true);
  write('broken/package.json', '{');
  const { status, output } = run(process.execPath, [link, join(folder, 'broken')]);
  expect(status).toBe(2);
  expect(output).toContain('broken/package.json cannot be read');
  expect(existsSync(join(folder, 'broken', 'mtl-packages'))).toBe(false);
});
