// Writes the files of this version that every later version must read, into
// packages/cli/fixtures/compatibility/VERSION: a dataset and its indices, a configuration file, and the run
// folder of four processes (tensor parallelism 2, distributed optimizer). `npm run dev -- compatibility` runs
// it.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chdir, execPath, exit } from 'node:process';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../temporary-directory.js';
import { compatibleVersion } from './compatible-version.js';
import { interfaceNames } from './interface-names.js';
import { fixtureFiles, readFiles } from './read-files.js';

const locate = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const target = locate(`fixtures/compatibility/${compatibleVersion}`);
const mtl = [locate('bin/mtl.mjs')];
const gptTrain = locate('../../apps/gpt-train/dist/main.js');

// the shape of a GPT, and every kind of value that a configuration file has: text, number, switch, list
const configuration = `# written by ${compatibleVersion}
preset: none
num-layers: 2
hidden-size: 16
num-attention-heads: 2
seq-length: 16
max-position-embeddings: 16
make-vocab-size-divisible-by: 8
micro-batch-size: 2
global-batch-size: 8
lr: 1.0e-2
lr-decay-style: cosine
lr-decay-iters: 8
train-iters: 8
attention-dropout: 0.1
hidden-dropout: 0.1
clip-grad: 1
eval-iters: 1
eval-interval: 2
log-interval: 1
eod-mask-loss: true
split: 90,10,0
threads: 1
data-path: [${fixtureFiles.corpus}]
data-cache-path: ${fixtureFiles.indexCache}
tokenizer-type: HuggingFaceTokenizer
tokenizer-model: ${fixtureFiles.tokenizer}
`;
const layout = ['--tensor-model-parallel-size', '2', '--use-distributed-optimizer', '--sequence-parallel'];

function corpus(): string {
  const sentence = (document: number, index: number): string =>
    `the cat number ${(document * 7 + index) % 10} sat on the mat. `;
  const documents = Array.from({ length: 24 }, (_, document) =>
    Array.from({ length: 12 }, (_, index) => sentence(document, index)).join(''),
  );
  return documents.join('\n\n');
}

function run(...words: readonly string[]): void {
  execFileSync(execPath, [...mtl, ...words], { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Replaces what describes the machine that wrote the files. */
function anonymise(path: string, replace: (value: Record<string, unknown>) => void, indent?: number): void {
  const value = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  replace(value);
  writeFileSync(path, `${JSON.stringify(value, undefined, indent)}\n`);
}

if (existsSync(target) && !process.argv.includes('--force')) {
  console.error(`${target} exists: a released version keeps its files; --force writes them anew`);
  exit(1);
}
const directory = temporaryDirectory();
try {
  chdir(directory.path);
  writeFileSync('corpus.txt', corpus());
  writeFileSync(fixtureFiles.configuration, configuration);
  const tokenizer = ['--tokenizer-type', 'HuggingFaceTokenizer', '--tokenizer-model', fixtureFiles.tokenizer];
  const vocabulary = ['--type', 'bpe', '--vocab-size', '280'];
  run('data', 'train-tokenizer', ...vocabulary, '--input', 'corpus.txt', '--output', fixtureFiles.tokenizer);
  run('data', 'prepare', '--input', 'corpus.txt', '--output-prefix', 'corpus', '--append-eod', ...tokenizer);
  const flags = ['--config', fixtureFiles.configuration, '--exit-interval', '4', '--save', fixtureFiles.run];
  run('run', '--nproc-per-node', '4', gptTrain, ...flags, ...layout);
  anonymise(
    join(fixtureFiles.run, 'run.json'),
    ({ starts }) => {
      const command = ['node', 'gpt-train', ...flags, ...layout];
      const anonymous = { host: 'host', pid: 1, workingDirectory: '/', commit: null, command };
      for (const start of starts as Record<string, unknown>[]) Object.assign(start, anonymous);
    },
    2,
  );
  anonymise(join(fixtureFiles.run, 'iter_0000004', 'saved_by.json'), (savedBy) =>
    Object.assign(savedBy, { host: 'host', pid: 1, system: 'system' }),
  );
  const { corpus: prefix, expected: expectedFile, ...others } = fixtureFiles;
  rmSync(target, { recursive: true, force: true });
  for (const name of [...Object.values(others), `${prefix}.bin`, `${prefix}.idx`])
    cpSync(name, join(target, name), { recursive: true });
  const expected = { version: compatibleVersion, ...(await readFiles()), names: interfaceNames() };
  writeFileSync(join(target, expectedFile), `${JSON.stringify(expected, undefined, 1)}\n`);
  console.log(`wrote ${target}`);
} finally {
  directory.dispose();
}
