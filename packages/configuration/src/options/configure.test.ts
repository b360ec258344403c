import type { MtlError } from '@mtl/errors';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { smallRun as small } from '../../test/support/small-run.js';
import { parseFlags } from '../command-line/parse-flags.js';
import type { CamelCase, OptionName } from '../flags/option-names.js';
import { findFlagFacts, flagGroups, flagNames } from '../schema/flag-schema.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { configure, flagsOfOptions } from './configure.js';
import {
  findOption,
  flagsOfTopic,
  type ModelOptions,
  optionsOfFlags,
  optionTopics,
  type RunOptions,
} from './run-options.js';

function catchError(body: () => unknown): MtlError {
  try {
    body();
  } catch (error) {
    expect(error).toMatchObject({ exitCode: 2 });
    return error as MtlError;
  }
  throw new Error('no error');
}

describe('the options of a run', () => {
  it('have the names of its flags, in camel case without abbreviations', () => {
    expectTypeOf<CamelCase<'num-layers'>>().toEqualTypeOf<'numLayers'>();
    expectTypeOf<CamelCase<'lr'>>().toEqualTypeOf<'lr'>();
    expectTypeOf<OptionName<'num-layers'>>().toEqualTypeOf<'numLayers'>();
    expectTypeOf<OptionName<'lr'>>().toEqualTypeOf<'maxLearningRate'>();
    expectTypeOf<NonNullable<RunOptions['optimizer']>['clipGrad']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<ModelOptions['numLayers']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<NonNullable<RunOptions['training']>['rampupBatchSize']>().toEqualTypeOf<
      number[] | undefined
    >();
    expect(findOption('num-layers')).toBe('model.numLayers');
    expect(findOption('adam-beta1')).toBe('optimizer.adamBeta1');
    expect(findOption('lr')).toBe('optimizer.maxLearningRate');
  });

  it('have a topic for every flag that a dry run does not own', () => {
    const ofDryRuns = Object.keys(flagGroups.find(({ title }) => title === 'Dry run')!.flags);
    expect(flagNames.filter((name) => findOption(name) === undefined)).toEqual(ofDryRuns);
    expectTypeOf<(typeof optionTopics)[number]>().toEqualTypeOf<Exclude<keyof RunOptions, 'preset'>>();
  });

  it('have each a name of their own', () => {
    const written = optionTopics.flatMap((topic) =>
      [...flagsOfTopic.get(topic)!.keys()].map((key) => `${topic}.${key}`),
    );
    expect(new Set(written).size).toBe(written.length);
    expect(written).not.toContain('model.kind');
    expect(written.length).toBe(flagNames.filter((name) => findOption(name) !== undefined).length);
  });
});

describe('configure', () => {
  it('configures what a command line does', () => {
    const line =
      '--preset none --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 ' +
      '--micro-batch-size 2 --train-iters 100 --lr 1e-3 --data-path bundled ' +
      '--tensor-model-parallel-size 2 --sequence-parallel --bf16 --no-eval-samples';
    const { sources, ...byFlags } = validateConfiguration(parseFlags(line.split(' ')), { worldSize: 2 });
    const { sources: sourcesOfOptions, ...byOptions } = configure(
      {
        ...small,
        training: { ...small.training, bf16: true },
        layout: { tensorModelParallelSize: 2, sequenceParallel: true },
        logging: { noEvalSamples: true },
      },
      { worldSize: 2 },
    );
    expect(byOptions).toEqual(byFlags);
    expect(sources.get('lr')).toBe('command line');
    expect(sourcesOfOptions.get('lr')).toBe('options');
  });

  it('begins with the smallest preset where nothing is of a model of its own', () => {
    expect(configure().preset).toBe(validateConfiguration(parseFlags([])).preset);
    expect(configure({ optimizer: { maxLearningRate: 1e-3 } }).preset).not.toBe('none');
    expect(configure({ model: { kind: 'bert' } }).kind).toBe('bert');
  });

  it('takes every default that a flag has as a value', () => {
    for (const topic of optionTopics) {
      for (const [key, name] of flagsOfTopic.get(topic)!) {
        const value = findFlagFacts(name).default;
        if (value === undefined) continue;
        expect(flagsOfOptions({ [topic]: { [key]: value } } as RunOptions).values[name], name).toEqual(value);
      }
    }
  });

  it('takes the options that flags stand for', () => {
    const line = '--tensor-model-parallel-size 2 --no-swiglu --data-path one two --adam-beta1 0.8 --dry-run';
    const { given, values } = parseFlags(line.split(' '));
    const flags = Object.fromEntries([...given].map((name) => [name, values[name]]));
    const options = optionsOfFlags(flags);
    expect(options).toEqual({
      layout: { tensorModelParallelSize: 2 },
      model: { swiglu: false },
      data: { dataPath: ['one', 'two'] },
      optimizer: { adamBeta1: 0.8 },
    });
    const { given: asked, values: read } = flagsOfOptions(options);
    expect(asked).toEqual(new Set([...given].filter((name) => name !== 'dry-run')));
    for (const name of asked) expect(read[name], name).toEqual(values[name]);
  });

  it('leaves out what is undefined', () => {
    const options = { ...small, layout: undefined, logging: { logInterval: undefined } };
    expect(configure(options).logging.logInterval).toBe(100);
  });
});

describe('an error in options', () => {
  it('names the option and the nearest one', () => {
    const error = catchError(() => configure({ optimizer: { clipGradient: 1 } } as never));
    expect(error.code).toBe('MTL_OPTION');
    expect(error.message).toBe('optimizer.clipGradient is no option of a run');
    expect(error.expected).toBe('optimizer.clipGrad');
  });

  it('names the topic that an option belongs to', () => {
    const error = catchError(() => configure({ model: { lr: 1 } } as never));
    expect(error).toMatchObject({
      message: 'model.lr is no option of a run',
      expected: 'optimizer.maxLearningRate',
    });
  });

  it.each([
    [{ optimiser: { lr: 1 } }, 'optimiser is no option of a run', 'write optimizer'],
    [{ lr: 1 }, 'lr is no option of a run', 'write optimizer.maxLearningRate'],
    [{ model: { 'hidden-size': 8 } }, 'model.hidden-size is no option of a run', 'write model.hiddenSize'],
    [{ optimizer: 3 }, 'optimizer is 3', undefined],
    [{ data: null }, 'data is null', undefined],
    [{ model: { kind: 'gtp' } }, 'model.kind is "gtp"', 'write gpt'],
  ])('refuses %j', (options, message, remedy) => {
    expect(catchError(() => configure(options as never))).toMatchObject({
      code: 'MTL_OPTION',
      message,
      remedy,
    });
  });

  it('is in the words of options, whatever finds it', () => {
    const range = catchError(() => configure({ ...small, optimizer: { maxLearningRate: -1 } }));
    expect(range.code).toBe('MTL_FLAG_VALUE');
    expect(range.message).toBe('optimizer.maxLearningRate -1 in the options');
    const layout = catchError(() =>
      configure({ ...small, layout: { tensorModelParallelSize: 3 } }, { worldSize: 3 }),
    );
    expect(layout.message).toBe('layout.tensorModelParallelSize 3 does not divide model.numAttentionHeads 4');
    expect(`${layout.expected} ${layout.remedy}`).not.toContain('--');
    const ofBert = catchError(() =>
      configure({ ...small, model: { ...small.model, shortSequenceProbability: 0.2 } }),
    );
    expect(ofBert.code).toBe('MTL_FLAG_MODEL');
    expect(ofBert.message).toBe(
      'model.shortSequenceProbability in the options is a flag of BERT, this is GPT',
    );
    const missing = catchError(() => configure({ preset: 'none', model: small.model }));
    expect(missing.code).toBe('MTL_FLAG_REQUIRED');
    expect(missing.message).toContain('training.microBatchSize');
    expect(missing.message).not.toContain('--');
  });
});

describe('the former name of an option', () => {
  it('counts for one more version, with a notice', () => {
    const former = configure({
      ...small,
      training: { microBatchSize: 2, trainIters: 70 },
      spikes: { lossSpikePolicy: 'ignore' },
      lora: { loraDropout: undefined },
    });
    const current = configure({
      ...small,
      training: { microBatchSize: 2, trainIterations: 70 },
      spikes: { policy: 'ignore' },
    });
    const notices = [
      'training.trainIters is now training.trainIterations',
      'spikes.lossSpikePolicy is now spikes.policy',
    ];
    expect(former).toEqual({ ...current, notices: [...notices, ...current.notices] });
    expect(former.training.trainIterations).toBe(70);
  });

  it('is refused next to the name', () => {
    expect(catchError(() => configure({ training: { trainIters: 70, trainIterations: 70 } }))).toMatchObject({
      code: 'MTL_OPTION',
      message:
        'training.trainIters and training.trainIterations are one option: training.trainIterations is its name',
      remedy: 'leave training.trainIters out',
    });
  });

  it('is checked under the name, and counts in its topic only', () => {
    expect(catchError(() => configure({ training: { trainIters: 0 } }))).toMatchObject({
      code: 'MTL_FLAG_VALUE',
      message: 'training.trainIterations 0 in the options',
    });
    expect(catchError(() => configure({ optimizer: { trainIters: 70 } } as never))).toMatchObject({
      code: 'MTL_OPTION',
      expected: 'training.trainIterations',
    });
  });
});
