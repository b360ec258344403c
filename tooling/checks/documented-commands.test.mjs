import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  documentProblems,
  npmProblemsOfText,
  sourceProblems,
  testProblems,
} from './documented/documented-commands.mjs';
import { flagsOfDevelopers } from './documented/npm-scripts.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path) => readFileSync(join(root, path), 'utf8');
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
}).split('\n');

// loads the command's parsers from its sources; this is not in a hook, because it may take longer than a
// hook's time limit
const real = await import(join(root, 'packages/cli/test/support/documented/command-problems.ts'));
const checker = { ...real, linkFlags: new Set(['--help']), isFlagOfDevelopers: flagsOfDevelopers(files) };

describe('commands and flags', () => {
  it('that documents name are those there are', () => {
    const documents = files.filter((path) => path.endsWith('.md'));
    expect(documents.length).toBeGreaterThan(60);
    expect(documents.flatMap((path) => documentProblems(path, read(path), checker))).toEqual([]);
  });

  it('that messages and help texts name are those there are', () => {
    const sources = files.filter((path) => /^(packages|apps)\/[^/]+\/src\/.*(?<!\.test)\.ts$/.test(path));
    expect(sources.length).toBeGreaterThan(500);
    expect(sources.flatMap((path) => sourceProblems(path, read(path), checker))).toEqual([]);
  });

  it('of npm that comments, scripts and manifests name are those there are', () => {
    const isText = (path) =>
      /\.(ts|mts|mjs|cc|h|cu|cuh|sh|py|json|yml|cmake|txt)$|^\.ci\//.test(path) &&
      !path.startsWith('tooling/checks/');
    const texts = files.filter(isText);
    expect(texts.flatMap((path) => npmProblemsOfText(path, read(path)))).toEqual([]);
  });

  it('of tests that verification names are those there are', () => {
    const documents = files.filter((path) => /^docs\/verification\/.*\.md$/.test(path));
    expect(documents.flatMap((path) => testProblems(path, read(path), files))).toEqual([]);
    expect(testProblems('a.md', 'kernels `megatron.test`, `no-such.test`', files)).toHaveLength(2);
  });
});

describe('a command or flag that is not there is found', () => {
  const inBlock = (line) => `# A\n\n\`\`\`sh\n${line}\n\`\`\`\n`;
  const inDocument = (text, path = 'README.md') => documentProblems(path, text, checker);

  it.each([
    ['mtl rum --nproc-per-node 2 gpt', 'MTL_COMMAND_UNKNOWN'],
    ['npx mtl run -n 4 gpt-train', 'MTL_FLAG_UNKNOWN: mtl run: -n'],
    ['mtl run --nproc-per-node 4 gpt-train -- --bf17', 'MTL_FLAG_UNKNOWN: --bf17 is not a flag'],
    ['mtl run --nproc-per-node 2 mtl -- evaluate --load DIR', 'MTL_COMMAND_UNKNOWN'],
    ['mtl runs a b', 'MTL_ARGUMENT_EXCESS'],
    ['mtl plan --profile h100-80gb -- --preset gpt-7', 'MTL_PRESET'],
    ['mtl plan --device cpu', 'MTL_FLAG_UNKNOWN'],
    ['mtl data prepare --input FILE', 'MTL_FLAG_REQUIRED'],
    ['mtl convert --load DIR --save-hf', 'MTL_FLAG_VALUE_MISSING'],
    ['gpt-train --num-layers many', 'MTL_FLAG_VALUE'],
    ['gpt-train --mask-prob 0.2', 'MTL_FLAG_MODEL'],
    ['A=1 srun --mpi=pmix npx bert-train --swiglu --no-such-flag', 'MTL_FLAG_UNKNOWN'],
    ['echo $(mtl doctor --jsn) | cat', 'MTL_FLAG_UNKNOWN'],
    ['mtl-link --types', 'mtl-link takes no --types'],
    ['npm run gpt-trian', 'no script gpt-trian in package.json'],
    ['npm run gpt-train -- --lrr 1', 'MTL_FLAG_UNKNOWN'],
    ['npm run build -w @mtl/kernels', 'npm run -w'],
    ['npm run dev -- no-such', 'npm run dev has no command no-such'],
    ['npm run dev -- parity --each-stepp', 'npm run dev -- parity has no flag --each-stepp'],
    ['npm run validate', 'no script validate'],
  ])('in a block of a document: %s', (line, what) => {
    expect(inDocument(inBlock(line))).toEqual([expect.stringContaining(what)]);
    expect(inDocument(inBlock(line))[0]).toMatch(/^README\.md:4: /);
  });

  it.each([
    ['mtl plan --profile NAME|FILE --num-processes N -- FLAGS'],
    ['mtl run --nproc_per_node $N gpt -- "$@" --lr 1e-3 > log.txt 2>&1 && mtl runs # the list'],
    ['gpt-train --train-iters N --num-layers N …\nnpm run dev -- parity --all --steps 12'],
    ['mtl sft --model DIR --train-data FILE.jsonl --save DIR'],
    ['cmake --build build; npm install --save-dev tsx'],
  ])('and one that is there passes: %s', (lines) => {
    expect(inDocument(inBlock(lines))).toEqual([]);
  });

  it('in a sentence, where a part of a command is enough, and one of a package', () => {
    expect(
      inDocument('`mtl convert` and `mtl data prepare --skip-bad-lines`, `--moe-*`, `--no-cuda-graphs`\n'),
    ).toEqual([]);
    expect(inDocument('`mtl convert --form`\n')).toHaveLength(1);
    expect(inDocument('`mtl schedule own.mjs`\n')).toEqual([expect.stringContaining('MTL_ARGUMENT_EXCESS')]);
    expect(inDocument('`--skip-bad-line` and --lr\n')).toEqual([
      'README.md:1: --skip-bad-line is a flag of no command',
    ]);
    expect(inDocument('`npm run test:native` in packages/kernels\n')).toEqual([]);
    expect(inDocument('`npm run test:native`\n', 'packages/kernels/README.md')).toEqual([]);
    expect(inDocument('`npm run test:native` in packages/data\n')).toHaveLength(1);
  });

  it('in a message, a remedy and a help text', () => {
    const inSource = (text) =>
      sourceProblems('a.ts', text, checker).map((each) => each.replace(/^a\.ts:\d+: /, ''));
    expect(
      inSource(`f('pass --lr; mtl runs DIR lists them, and mtl is a command', \`mtl runs \${a}\`);`),
    ).toEqual([]);
    expect(inSource("f('use mtl evaluate, which');")).toEqual(['mtl evaluate: mtl has no command evaluate']);
    expect(inSource("f('mtl convert --form ' + a);")).toContain(
      'mtl convert --form VALUE: mtl convert has no flag --form',
    );
    expect(inSource("f('leave ' +\n '--learning-rate out');")).toEqual([
      '--learning-rate is a flag of no command',
    ]);
    expect(inSource(`f(\`start it with mtl run --nproc-per-node \${n} gpt -- --bf17\`);`)).toContainEqual(
      expect.stringContaining('--bf17 is not a flag'),
    );
    expect(inSource('f(`\nExamples:\n  mtl chat runs/a --systen b   (a remark)\n`);')).toEqual([
      expect.stringContaining('MTL_FLAG_UNKNOWN'),
    ]);
    expect(npmProblemsOfText('a.ts', '// npm run test:native -w @mtl/kernels\n')).toHaveLength(1);
    expect(npmProblemsOfText('.ci/run', 'npm run --silent dev -- parity --fewer\n')).toHaveLength(1);
  });
});
