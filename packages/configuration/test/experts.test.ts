import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  ExpertVariants,
  GptModelConfiguration,
  LoadBalancingType,
  RouterScoreFunction,
  TokenDropPolicy,
} from '@mtl/models';
import { expect, expectTypeOf, it, onTestFinished } from 'vitest';
import { expertFields, gateFields } from '../src/architecture/expert-fields.js';
import type { OptionName } from '../src/flags/option-names.js';
import {
  configurationJson,
  configure as configureOptions,
  describeGptModel,
  type Flags,
  formatHelp,
  parseFlags,
  printConfiguration,
  readSavedConfiguration,
  validateConfiguration,
} from '../src/index.js';
import { listFields, withLoadedFlags } from '../src/internal/index.js';
import {
  architectureFlags,
  checkHuggingFaceArchitecture,
  checkSameArchitecture,
  flagsOfHuggingFace,
  learningDifferences,
  listSavedSizes,
} from '../src/saved/index.js';
import { configure, small } from './support/configure.js';
import { smallRun } from './support/small-run.js';

const place = { directory: 'runs/a', path: 'runs/a/iter_0000010' };
const line =
  `${small} --disable-bias-linear --num-experts 8 --moe-layer-freq ([0]*2+[1]*2) --moe-router-load-balancing-type ` +
  'seq_aux_loss global_aux_loss --moe-aux-loss-coeff 0.01 0.001 --moe-shared-expert-intermediate-size 64';
const configureModel = (flags: string): GptModelConfiguration =>
  describeGptModel(configure(flags).model, 256);

function writeText(name: string, text: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-experts-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

/** Saves the configuration of a run, and reads it as a later run would. */
function saveAndRead(flags: string) {
  const json = { ...configurationJson(configure(flags)), gptModel: configureModel(flags) };
  return readSavedConfiguration('gpt', JSON.parse(JSON.stringify(json)), place);
}

it('has the keys and names of the models', () => {
  type Fields = typeof expertFields & typeof gateFields;
  expectTypeOf<OptionName<keyof Fields>>().toEqualTypeOf<keyof ExpertVariants>();
  expectTypeOf<
    NonNullable<Flags['moe-router-load-balancing-type']>[number]
  >().toEqualTypeOf<LoadBalancingType>();
  expectTypeOf<NonNullable<Flags['moe-router-score-function']>>().toEqualTypeOf<RouterScoreFunction>();
  expectTypeOf<NonNullable<Flags['moe-token-drop-policy']>>().toEqualTypeOf<TokenDropPolicy>();
  const own = { ...expertFields, ...gateFields };
  const keys = listFields().flatMap(([name, { key }]) => (Object.hasOwn(own, name) ? [key] : []));
  expect(keys).toHaveLength(Object.keys(own).length);
  expect(new Set(keys).size).toBe(keys.length);
});

it('saves nothing of experts for a dense model', () => {
  const { flags, resolved } = configurationJson(configure(small));
  const text = JSON.stringify({ flags, resolved, model: configureModel(small) });
  expect(text).not.toMatch(/expert|moe|geglu|clamp|linearoffset|linear-offset/i);
  expect(architectureFlags({ kind: 'gpt', model: configureModel(small) })).not.toHaveProperty('num-experts');
  expect(Object.keys(architectureFlags({ kind: 'gpt', model: configureModel(small) })).join()).not.toMatch(
    /moe|glu-/,
  );
});

it('saves a model with experts, and reads it back as the same flags', () => {
  const { model } = saveAndRead(line);
  expect(model).toMatchObject({ numExperts: 8, moeLayerFreq: [0, 0, 1, 1], moeFfnHiddenSize: 256 });
  const flags = architectureFlags({ kind: 'gpt', model });
  expect(flags).toMatchObject({
    'num-experts': 8,
    'moe-layer-freq': '[0]*2+[1]*2',
    'moe-router-load-balancing-type': ['seq_aux_loss', 'global_aux_loss'],
    'moe-aux-loss-coeff': [0.01, 0.001],
    'moe-router-pre-softmax': false,
  });
  const loaded = { source: 'checkpoint a', values: flags, fixed: [], vocabularySize: 256 };
  const again = validateConfiguration(withLoadedFlags(parseFlags(small.split(' ')), loaded));
  expect(describeGptModel(again.model, 256)).toEqual(model);
  expect(listSavedSizes('gpt').others).toEqual(expect.arrayContaining(['numExperts', 'moeFfnHiddenSize']));
});

it('does not read a model whose experts are none', () => {
  const saved = JSON.parse(
    JSON.stringify({ ...configurationJson(configure(line)), gptModel: configureModel(line) }),
  );
  for (const change of [{ moeLayerFreq: [0, 2, 1, 1] }, { moeLayerFreq: 0 }, { moeAuxLossCoeff: 'much' }]) {
    const gptModel = { ...saved.gptModel, ...change };
    expect(() => readSavedConfiguration('gpt', { ...saved, gptModel }, place)).toThrow(
      new RegExp(`gptModel\\.${Object.keys(change)[0]}`),
    );
  }
});

it('is configured again from the configuration that a checkpoint keeps', () => {
  const json = configurationJson(configure(line));
  const path = writeText('configuration.json', JSON.stringify(json));
  const again = configure(`--config ${path}`);
  expect(configurationJson(again).resolved).toEqual(json.resolved);
  expect(again.flags).toEqual(json.flags);
});

it.each([
  ['number', 'moe-layer-freq: 2', 2],
  ['text', 'moe-layer-freq: "([0]*2+[1]*2)"', [0, 0, 1, 1]],
  ['list', 'moe_layer_freq: [0, 1, 1, 1]', [0, 1, 1, 1]],
])('reads which layers have experts from a file: a %s', (_, text, layers) => {
  const path = writeText('run.yaml', `${text}\nnum-experts: 8\n`);
  expect(configure(`--config ${path} ${small}`).model.moeLayerFreq).toEqual(layers);
});

it('is configured by options', () => {
  const model = {
    ...smallRun.model,
    numExperts: 8,
    moeLayerFreq: '[0,1]*2',
    moeAuxLossCoeff: [0.01],
    disableBiasLinear: true,
    moeRouterLoadBalancingType: ['seq_aux_loss' as const],
  };
  const layout = { expertModelParallelSize: 2, moeTokenDispatcherType: 'allgather' as const };
  const configured = configureOptions({ ...smallRun, model, layout }, { worldSize: 2 });
  expect(configured.model).toMatchObject({
    numExperts: 8,
    moeLayerFreq: [0, 1, 0, 1],
    moeAuxLossCoeff: [0.01],
  });
  expect(configured.parallel).toMatchObject({
    expertModelParallelSize: 2,
    moeTokenDispatcherType: 'allgather',
  });
  expect(() => configureOptions({ ...smallRun, model, layout }, { worldSize: 1 })).toThrow(
    expect.objectContaining({
      message: expect.stringMatching(/^layout\.expertModelParallelSize 2 does not fit 1 processes/),
      remedy: 'pass layout.expertModelParallelSize 1',
    }),
  );
  expect(
    configureOptions({ ...smallRun, model: { ...smallRun.model, numExperts: 0 } }).model.numExperts,
  ).toBe(undefined);
});

it('lets a command line take the experts of a file away', () => {
  const path = writeText('run.yaml', 'num-experts: 8\nmoe-router-topk: 4\n');
  const { model, notices } = configure(`--config ${path} ${small} --num-experts 0`);
  expect(model).toMatchObject({ numExperts: undefined, moeRouterTopk: undefined });
  expect(notices).toContainEqual('without experts no effect: --moe-router-topk');
});

it('is compared by a resumed run: the weights, and how it learns', () => {
  const check = (built: string) => () =>
    checkSameArchitecture({
      kind: 'gpt',
      saved: configureModel(line),
      built: configureModel(built),
      path: place.path,
    });
  expect(check(line)).not.toThrow();
  expect(check(`${line} --moe-router-topk 2 --moe-layer-freq [0,0,1,1]`)).not.toThrow();
  expect(check(`${line} --moe-aux-loss-coeff 0 0`)).not.toThrow();
  expect(check(`${line} --moe-layer-freq 2`)).toThrow(
    /holds a model of --moe-layer-freq \[0\]\*2\+\[1\]\*2, and this one has --moe-layer-freq 2/,
  );
  expect(check(small)).toThrow(/--num-experts 8 .*and this one has .*no --num-experts/);
  const before = saveAndRead(line);
  expect(learningDifferences(before, configure(line))).toEqual([]);
  const now = configure(`${line} --moe-aux-loss-coeff 0.01 0.002 --moe-expert-capacity-factor 1`);
  expect(learningDifferences(before, now)).toEqual([
    { flag: 'moe-aux-loss-coeff', before: '0.01 0.001', now: '0.01 0.002' },
    { flag: 'moe-expert-capacity-factor', before: 'none', now: '1' },
  ]);
  expect(learningDifferences(saveAndRead(small), configure(small))).toEqual([]);
});

it('is fixed by a Hugging Face directory, but for how it learns', () => {
  const loaded = flagsOfHuggingFace({
    directory: 'a',
    kind: 'gpt',
    model: configureModel(line),
    tokenizer: undefined,
  });
  const with_ = (flags: string) =>
    withLoadedFlags(parseFlags(['--load-hf', 'a', ...flags.split(' ')]), loaded).values;
  expect(with_('--moe-layer-freq [0,0,1,1]')['moe-layer-freq']).toBe('[0]*2+[1]*2');
  expect(with_('--moe-aux-loss-coeff 0 0.1')['moe-aux-loss-coeff']).toEqual([0, 0.1]);
  expect(with_('--moe-expert-capacity-factor 2')['moe-expert-capacity-factor']).toBe(2);
  expect(() => with_('--moe-router-topk 4')).toThrow(
    expect.objectContaining({ code: 'MTL_FLAG_CONFLICT', expected: '--moe-router-topk 2, which it has' }),
  );
});

it('is refused where a Hugging Face directory is to be written that has no such experts', () => {
  const llama =
    '--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear ' +
    '--untie-embeddings-and-output-weights --num-experts 8';
  const check = (flags: string) => () =>
    checkHuggingFaceArchitecture({ kind: 'gpt', model: configureModel(`${small} ${llama} ${flags}`) });
  expect(check('--moe-ffn-hidden-size 24')).not.toThrow();
  expect(check('--qk-layernorm --moe-layer-freq 2 --moe-router-pre-softmax')).not.toThrow();
  for (const flags of [
    '--moe-router-score-function sigmoid',
    '--moe-router-num-groups 2 --moe-router-group-topk 1',
  ]) {
    expect(check(flags)).toThrow(
      expect.objectContaining({ message: expect.stringContaining(flags.split(' ')[0]!) }),
    );
  }
});

it('has a part of help and of the printed configuration', () => {
  const help = formatHelp({ program: 'x', description: 'y' });
  expect(help).toMatch(/\nExperts\n {2}--num-experts N +Experts of a layer/);
  expect(help).toMatch(/--moe-layer-freq N\|LIST +Which layers have experts/);
  expect(help.replaceAll(/\s+/g, ' ')).toContain(
    'One or more of aux_loss, seq_aux_loss, global_aux_loss, none. [aux_loss]',
  );
  expect(help.replaceAll(/\s+/g, ' ')).toContain("Megatron-LM's default is allgather. [alltoall]");
  expect(formatHelp({ program: 'x', description: 'y', model: 'bert' })).not.toMatch(/num-experts|\nExperts/);
  expect(printConfiguration(configure(small))).not.toMatch(/Experts/);
  const printed = printConfiguration(configure(line));
  expect(printed).toMatch(/moe-layer-freq +\[0\]\*2\+\[1\]\*2 +command line/);
  expect(printed).toMatch(/moe-aux-loss-coeff +0\.01 0\.001 +command line/);
  expect(printed).toMatch(/moe-router-topk +-\n/);
});
