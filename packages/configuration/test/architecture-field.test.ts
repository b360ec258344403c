import { fileURLToPath } from 'node:url';
import { readHuggingFaceBert, readHuggingFaceGpt } from '@mtl/formats';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { afterAll, expect, it, vi } from 'vitest';

// the table of the architecture with one more field: everything below must follow from it
vi.mock('../src/architecture/architecture-fields.js', async (importOriginal) => {
  const original = await importOriginal<typeof import('../src/architecture/architecture-fields.js')>();
  const { count } = await import('../src/flags/flag-kinds.js');
  const { ofAll } = await import('../src/architecture/architecture-field.js');
  const dummy = ofAll(count('Tracks that a dummy has.', { default: 1 }), { isSize: true });
  return { ...original, architectureFields: { ...original.architectureFields, 'dummy-tracks': dummy } };
});

// test files share a process: other files have read the table before, and read it again later
vi.resetModules();
afterAll(() => {
  vi.doUnmock('../src/architecture/architecture-fields.js');
  vi.resetModules();
});

const {
  describeBertModel,
  configFileJsonSchema,
  configurationJson,
  formatHelp,
  describeGptModel,
  parseFlags,
  printConfiguration,
  readSavedConfiguration,
  validateConfiguration,
} = await import('../src/index.js');
const {
  architectureFlags,
  checkHuggingFaceArchitecture,
  checkSameArchitecture,
  flagsOfHuggingFace,
  listSavedSizes,
} = await import('../src/saved/index.js');
const { withLoadedFlags } = await import('../src/internal/index.js');

const place = { directory: 'runs/a', path: 'runs/a/iter_0000010' };
const locateFixture = (name: string) =>
  fileURLToPath(new URL(`../../formats/fixtures/${name}`, import.meta.url));
const configure = (...words: string[]) =>
  validateConfiguration(parseFlags(['--preset', 'char-10m', ...words]));
const modelWith = (numTracks: number): GptModelConfiguration =>
  describeGptModel(configure('--dummy-tracks', `${numTracks}`).model, 256);

it('has a flag, with its range, its help and its place in files of settings', () => {
  expect(configure('--dummy-tracks', '3').model).toMatchObject({ dummyTracks: 3 });
  expect(configure().model).toMatchObject({ dummyTracks: 1 });
  expect(() => configure('--dummy-tracks', '0')).toThrow(/dummy-tracks 0/);
  for (const model of ['gpt', 'bert'] as const) {
    expect(formatHelp({ program: 'x', description: 'y', model })).toMatch(
      /--dummy-tracks N +Tracks that a dummy has\. \[1\]/,
    );
  }
  expect(configFileJsonSchema()).toMatchObject({ properties: { 'dummy-tracks': { minimum: 1 } } });
  expect(printConfiguration(configure('--dummy-tracks', '3'))).toMatch(/dummy-tracks +3 +command line/);
  // a model of the user's own: no preset applies unless it is named
  expect(parseFlags(['--dummy-tracks', '3']).preset).toBe('none');
});

it('is part of the model, of both kinds', () => {
  expect(modelWith(3)).toMatchObject({ dummyTracks: 3 });
  const flags = parseFlags(['--preset', 'bert-base', '--dummy-tracks', '2'], { model: 'bert' });
  const bert: BertModelConfiguration = describeBertModel(validateConfiguration(flags), 256);
  expect(bert).toMatchObject({ dummyTracks: 2, layerNormPlacement: 'pre' });
});

it('is saved, and read from checkpoints of before it existed as well', () => {
  const configuration = configure('--dummy-tracks', '3');
  const saved = JSON.parse(JSON.stringify({ ...configurationJson(configuration), gptModel: modelWith(3) }));
  expect(saved).toMatchObject({ flags: { 'dummy-tracks': 3 }, resolved: { model: { dummyTracks: 3 } } });
  const { model } = readSavedConfiguration('gpt', saved, place);
  expect(architectureFlags({ kind: 'gpt', model })).toMatchObject({ 'dummy-tracks': 3 });
  const { dummyTracks: _, ...older } = saved.gptModel;
  const old = readSavedConfiguration('gpt', { ...saved, gptModel: older }, place).model;
  expect(architectureFlags({ kind: 'gpt', model: old })).toMatchObject({ 'dummy-tracks': 1 });
  const wrong = { ...saved, gptModel: { ...saved.gptModel, dummyTracks: 'three' } };
  expect(() => readSavedConfiguration('gpt', wrong, place)).toThrow(/gptModel\.dummyTracks/);
  expect(listSavedSizes('gpt').others).toContain('dummyTracks');
});

it('is no flag of a model in which nothing depends on it', () => {
  const listFlags = (change: object) =>
    architectureFlags({ kind: 'gpt', model: { ...modelWith(1), ...change } });
  expect(listFlags({})).toMatchObject({ gelu: 'tanh' });
  for (const change of [{ swiglu: true }, { squaredRelu: true }])
    expect(listFlags(change)).not.toHaveProperty('gelu');
});

it('is compared by a resumed run', () => {
  const check = (saved: GptModelConfiguration, built: GptModelConfiguration) => () =>
    checkSameArchitecture({ kind: 'gpt', saved, built, path: place.path });
  expect(check(modelWith(3), modelWith(3))).not.toThrow();
  expect(check(modelWith(3), modelWith(2))).toThrow(
    /holds a model of --dummy-tracks 3, and this one has --dummy-tracks 2/,
  );
  const windowed: GptModelConfiguration = { ...modelWith(2), windowSize: '128,0' };
  expect(check(modelWith(3), windowed)).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(
        /of no --window-size --dummy-tracks 3, and this one has --window-size 128,0 /,
      ),
      remedy: expect.stringMatching(/^pass --dummy-tracks 3, leave out --window-size, or leave/),
    }),
  );
});

it.each([
  ['gpt', 'huggingface-gpt2', readHuggingFaceGpt],
  ['bert', 'huggingface-bert', readHuggingFaceBert],
] as const)('is fixed by a Hugging Face directory, which has none: %s', async (kind, name, read) => {
  const directory = locateFixture(name);
  const { configuration: model } = await read({ directory });
  const loaded = flagsOfHuggingFace({ directory, kind, model, tokenizer: undefined });
  const withTracks = (count: string) =>
    withLoadedFlags(parseFlags(['--load-hf', directory, '--dummy-tracks', count], { model: kind }), loaded);
  expect(withTracks('1').values).toMatchObject({ 'dummy-tracks': 1 });
  expect(() => withTracks('2')).toThrow(
    expect.objectContaining({
      code: 'MTL_FLAG_CONFLICT',
      message: expect.stringContaining('--dummy-tracks 2 contradicts the Hugging Face directory'),
    }),
  );
});

it('is refused where a Hugging Face directory is to be written, which cannot record it', () => {
  expect(() => checkHuggingFaceArchitecture({ kind: 'gpt', model: modelWith(1) })).not.toThrow();
  expect(() => checkHuggingFaceArchitecture({ kind: 'gpt', model: modelWith(3) })).toThrow(
    expect.objectContaining({
      code: 'MTL_HUGGING_FACE_ARCHITECTURE',
      message: expect.stringContaining('--dummy-tracks 3'),
      expected: '--dummy-tracks 1',
    }),
  );
});
