import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';

// the flags of training with two more flags: everything below must follow from their declaration
vi.mock('../src/flags/training-flags.js', async (importOriginal) => {
  const original = await importOriginal<typeof import('../src/flags/training-flags.js')>();
  const { dummyFlags } = await import('./support/dummy-flags.js');
  return { ...original, trainingFlags: { ...original.trainingFlags, ...dummyFlags } };
});

// test files share a process: other files have read the flags before, and read them again later
vi.resetModules();
afterAll(() => {
  vi.doUnmock('../src/flags/training-flags.js');
  vi.resetModules();
});

const {
  configFileJsonSchema,
  configure,
  formatHelp,
  describeGptModel,
  parseFlags,
  printConfiguration,
  readSavedConfiguration,
  saveConfiguration,
  validateConfiguration,
} = await import('../src/index.js');
const { learningDifferences } = await import('../src/saved/index.js');
const { small } = await import('./support/configure.js');

const configured = (...words: string[]) =>
  validateConfiguration(parseFlags([...small.split(' '), ...words]), { worldSize: 1 });

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-option-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** Returns the contents of a checkpoint of a run with these flags, as a later run reads it. */
async function saveAndRead(...words: string[]) {
  const directory = temporaryDirectory();
  const configuration = configured(...words);
  const saved = await saveConfiguration({
    directory,
    configuration,
    model: describeGptModel(configuration.model, 256),
    tokenizer: undefined,
    data: { dataPath: [], split: '1' },
  });
  return readSavedConfiguration('gpt', saved, { directory, path: join(directory, 'iter_0000010') });
}

describe('an option of a run that is declared once', () => {
  it('has a type', { tags: ['whole'] }, () => {
    expect(
      typeErrors(`
        import type { RunOptions } from '../src/index.js';
        export const known: RunOptions = { training: { dummyShare: 0.5, dummyPlace: 'a' } };
        export const otherType: RunOptions = { training: { dummyShare: 'half' } };
        export const otherTopic: RunOptions = { optimizer: { dummyShare: 0.5 } };
        export const unknown: RunOptions = { training: { dummyShares: 0.5 } };`),
    ).toEqual([
      [4, expect.stringContaining("Type 'string' is not assignable to type 'number'")],
      [5, expect.stringContaining("'dummyShare' does not exist in type")],
      [6, expect.stringContaining("Did you mean to write 'dummyShare'?")],
    ]);
  });

  it('is a flag and an option, with a range and a default', () => {
    expect(configured('--dummy-share', '0.5').flags).toMatchObject({ 'dummy-share': 0.5 });
    expect(configured().flags).toMatchObject({ 'dummy-share': 0.25 });
    expect(configured('--dummy-place', 'a').flags).toMatchObject({ 'dummy-place': 'a' });
    expect(() => configured('--dummy-share', '1.5')).toThrow(/dummy-share 1.5/);
    const options = { preset: 'char-10m' as const, training: { dummyShare: 0.5 } as object };
    expect(configure(options).flags).toMatchObject({ 'dummy-share': 0.5 });
  });

  it('is in the help, in the schema of files and in the printed configuration', () => {
    for (const model of ['gpt', 'bert'] as const) {
      const help = formatHelp({ program: 'x', description: 'y', model });
      expect(help).toMatch(/--dummy-share X +Share that a dummy has\. \[0\.25\]/);
      expect(help).toMatch(/--dummy-place DIR +Where a dummy is\./);
    }
    expect(configFileJsonSchema()).toMatchObject({
      properties: { 'dummy-share': { type: 'number', description: 'Share that a dummy has.' } },
    });
    const printed = printConfiguration(configured('--dummy-share', '0.5'));
    expect(printed).toMatch(/dummy-share +0\.5 +command line/);
    expect(printed).toMatch(/dummy-place +-$/m);
  });

  it.each([
    ['yaml', 'dummy-share: 0.5\n'],
    ['json', '{ "dummy-share": 0.5 }'],
  ])('is read from a file: %s', (extension, text) => {
    const file = join(temporaryDirectory(), `file.${extension}`);
    writeFileSync(file, text);
    const { flags, sources } = configured('--config', file);
    expect(flags).toMatchObject({ 'dummy-share': 0.5 });
    expect(sources.get('dummy-share' as 'seed')).toBe(file);
  });

  it('is saved, and the same again from what was saved', async () => {
    const saved = await saveAndRead('--dummy-share', '0.5', '--dummy-place', 'a');
    expect(saved.flags).toMatchObject({ 'dummy-share': 0.5, 'dummy-place': 'a' });
    expect((await saveAndRead()).flags).toMatchObject({ 'dummy-share': 0.25 });
  });

  it('is compared by a resumed run where it changes how a model learns', async () => {
    const saved = await saveAndRead('--dummy-share', '0.5', '--dummy-place', 'a');
    expect(learningDifferences(saved, configured('--dummy-share', '0.5', '--dummy-place', 'b'))).toEqual([]);
    const difference = { flag: 'dummy-share', before: '0.5', now: '0.25' };
    expect(learningDifferences(saved, configured())).toEqual([difference]);
  });

  it('had the effect of its default before it existed', async () => {
    const { flags, ...saved } = await saveAndRead();
    const { 'dummy-share': _, ...others } = flags as { readonly 'dummy-share': number };
    const before = { ...saved, flags: others };
    expect(learningDifferences(before, configured())).toEqual([]);
    const difference = { flag: 'dummy-share', before: '0.25', now: '0.5' };
    expect(learningDifferences(before, configured('--dummy-share', '0.5'))).toEqual([difference]);
  });
});

/**
 * Returns the lines with type errors in a file of this folder, checked against the mock declarations above.
 */
function typeErrors(text: string): ReadonlyArray<readonly [line: number, message: string]> {
  const locate = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const [snippet, flags] = [locate('snippet.ts'), locate('../src/flags/training-flags.ts')];
  const texts = new Map([
    [snippet, text],
    [
      flags,
      readFileSync(flags, 'utf8')
        .replace(/^/, "import { dummyFlags } from '../../test/support/dummy-flags.js';\n")
        .replace('trainingFlags = {', 'trainingFlags = { ...dummyFlags,'),
    ],
  ]);
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(locate('../../../tsconfig.json'), ts.sys.readFile).config,
    ts.sys,
    locate('../../..'),
  );
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.readFile = (path) => texts.get(path) ?? readFile(path);
  host.fileExists = (path) => texts.has(path) || fileExists(path);
  const program = ts.createProgram([snippet], options, host);
  return program
    .getSemanticDiagnostics(program.getSourceFile(snippet))
    .map(({ file, start, messageText }) => {
      const { line } = file!.getLineAndCharacterOfPosition(start!);
      return [line + 1, ts.flattenDiagnosticMessageText(messageText, ' ')] as const;
    });
}
