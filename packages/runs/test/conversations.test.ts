import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { scoreTokens } from '@mtl/inference';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadGptForInference } from '../src/saved/inference/load-gpt-for-inference.js';
import type { TrainGptResult } from './ranks/train-gpt.js';
import { checkpointBytes } from './support/checkpoint-bytes.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
  validationLosses,
} from './support/training-runs.js';

const template =
  "{% for m in messages %}{{ m.role[0] + ':' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
const [numTrained, numConversations] = [24, 36];
/** Question and answer of each conversation. */
const said = Array.from(
  { length: numConversations },
  (_, index) => [`${index}+${index % 7}?`, `${index + (index % 7)}${'!'.repeat(index % 5)}`] as const,
);
const lines = (from: number, to: number): string =>
  said
    .slice(from, to)
    .map(([question, answer]) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: question },
          { role: 'assistant', content: answer },
        ],
      }),
    )
    .join('\n');

let runs: TrainingRuns;
let options: RunOptions;
const leftOut: RunOptions = {
  data: { dataPath: undefined, split: undefined, eodMaskLoss: undefined },
  training: {
    trainIterations: undefined,
    evalIterations: undefined,
    evalInterval: undefined,
    globalBatchSize: undefined,
  },
  optimizer: { learningRateDecayIterations: undefined },
};
beforeAll(async () => {
  runs = await TrainingRuns.create();
  writeFileSync(runs.locate('train.jsonl'), lines(0, numTrained));
  writeFileSync(runs.locate('validation.jsonl'), lines(numTrained, numConversations));
  writeFileSync(runs.locate('chat.jinja'), template);
  options = {
    data: {
      trainData: [runs.locate('train.jsonl')],
      validationData: [runs.locate('validation.jsonl')],
      chatTemplate: runs.locate('chat.jinja'),
      epochs: 3,
    },
    training: { globalBatchSize: 4 },
  };
});
afterAll(() => runs.remove());

const run = (name: string, added: RunOptions = {}) => ({
  name,
  options: mergeOptions(leftOut, options, added),
});

describe('fine-tuning on conversations', () => {
  let output = '';
  beforeAll(async () => {
    const [whole] = await runs.run(1, [run('whole')]);
    ({ output } = whole![0]!);
    expect(whole![0]!.reason).toBe('done');
    expect(whole![0]!.sample).toMatch(/^A conversation:\nuser: 24\+3\?\nassistant: /);
  });

  /** The number of steps of one epoch, and two steps of the next epoch. */
  const stepsInSecondEpoch = (): number => runs.readMetrics('whole').length / 3 + 2;

  it('trains epochs of all conversations, and evaluates after each', () => {
    expect(output).toMatch(/24 to train on, 12 to evaluate on\n/);
    const [, rows] = /in (\d+) samples of 32/.exec(output)!;
    const stepsOfEpoch = Math.ceil(Number(rows) / 4);
    const metrics = runs.readMetrics('whole');
    expect(metrics.length).toBe(3 * stepsOfEpoch);
    expect(validationLosses(output).length).toBe(3);
    expect(metrics[0]!.lm_loss - metrics.at(-1)!.lm_loss).toBeGreaterThan(1);
  });

  it('has the loss of the answers alone, each in its own conversation, by their number of tokens', async () => {
    const loaded = await loadGptForInference({
      load: runs.locate('whole'),
      device: 'cpu',
      onNotice: () => {},
    });
    try {
      // the tokens of the template, written out
      const losses = said.slice(numTrained).flatMap(([question, answer]) => {
        const given = [...`u:${question}`, '', ...'a:'].map((letter) => letter.charCodeAt(0) || 256);
        const learnt = [...answer, ''].map((letter) => letter.charCodeAt(0) || 256);
        const scores = scoreTokens({ model: loaded.model, tokens: [...given, ...learnt] });
        return Array.from(scores.subarray(given.length - 1), (score) => -score);
      });
      const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
      // tolerance: rounding of float32, and of seven printed digits
      expect(Math.abs(validationLosses(output).at(-1)! / mean - 1)).toBeLessThan(
        tolerances.fp32.loss + printedTwice,
      );
      expect(losses.length).toBe(
        said.slice(numTrained).reduce((sum, [, answer]) => sum + answer.length + 1, 0),
      );
    } finally {
      loaded.dispose();
    }
  });

  it('goes on in the middle of an epoch to the bit, from what is saved alone', async () => {
    const interval = stepsInSecondEpoch();
    const data = readFileSync(runs.locate('chat.jinja'));
    await runs.run(1, [run('stopped', { training: { exitInterval: interval } })]);
    expect(runs.readMetrics('stopped').length).toBe(interval);
    // the template is kept with the tokenizer
    rmSync(runs.locate('chat.jinja'));
    const recipe: RunOptions = {
      preset: undefined,
      model: { numLayers: undefined, hiddenSize: undefined, numAttentionHeads: undefined },
      data: { tokenizerType: undefined },
    };
    const resumed = {
      name: 'stopped',
      options: mergeOptions(leftOut, recipe, { checkpoint: { load: runs.locate('stopped') } }),
    };
    const result = (await runs.run(1, [resumed]))[0]![0]!;
    writeFileSync(runs.locate('chat.jinja'), data);
    expect(validationLosses(result.output)).toEqual(validationLosses(output).slice(1));
    expect(listNumbers(runs.readMetrics('stopped'))).toEqual(listNumbers(runs.readMetrics('whole')));
    const last = join(runs.locate('whole'), result.checkpointPath!.split('/').at(-1)!);
    expect(checkpointBytes(result.checkpointPath!)).toEqual(checkpointBytes(last));
    expect(existsSync(join(runs.locate('stopped'), 'tokenizer', 'chat_template.jinja'))).toBe(true);
  });

  it.each([
    ['tensor-parallel', { layout: { tensorModelParallelSize: 2, sequenceParallel: true } }],
    ['data-parallel', { layout: { useDistributedOptimizer: true } }],
    // every conversation is divided over both ranks
    ['context-parallel', { layout: { contextParallelSize: 2 } }],
  ])('has the curve of one process on two %s ranks', async (name, layout) => {
    const exitInterval = stepsInSecondEpoch();
    const first = (
      await runs.run(2, [run(name, mergeOptions(layout, { training: { exitInterval } }))])
    )[0]![0]!;
    expect(runs.readMetrics(name).length).toBe(exitInterval);
    const { loss, norm } = runs.differences(name, 'whole', { stopped: true });
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    const ofFirstEpoch = output.slice(0, output.indexOf('\n', output.indexOf('validation loss')));
    expect(validationDifference(first.output, ofFirstEpoch)).toBeLessThan(
      tolerances.fp32.loss + printedTwice,
    );
  });

  it('trains low-rank adapters alone, on several ranks as in one process', async () => {
    const adapters: RunOptions = {
      checkpoint: { load: runs.locate('whole'), finetune: true },
      lora: { rank: 4, dropout: 0.1 },
    };
    const options = mergeOptions(adapters, { data: { epochs: 1 } });
    const { output: alone } = (await runs.run(1, [run('adapted', options)]))[0]![0]!;
    expect(alone).toMatch(/adapters of [\d,]+ parameters are trained/);
    const context: RunOptions = { layout: { contextParallelSize: 2 } };
    // adapters of tensor-parallel ranks are tested in lora.test.ts, too
    const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
    const layouts = [[2, context] as const, ...inWholeRuns([4, mergeOptions(tensor, context)] as const)];
    for (const [worldSize, layout] of layouts) {
      const name = `adapted on ${worldSize}`;
      await runs.run(worldSize, [run(name, mergeOptions(options, layout))]);
      const { loss, norm } = runs.differences(name, 'adapted');
      expect(loss, name).toBeLessThan(tolerances.fp32.loss);
      expect(norm, name).toBeLessThan(tolerances.fp32.norm);
    }
  });

  it('ends early when the validation loss has stopped falling, and remembers that', async () => {
    const diverging: RunOptions = {
      optimizer: { maxLearningRate: 0.3 },
      data: { earlyStoppingPatience: 1, epochs: 6 },
      training: { evalInterval: 2 },
    };
    const results = await runs.run(1, [
      run('early', diverging),
      {
        name: 'early',
        options: mergeOptions(leftOut, {
          checkpoint: { load: runs.locate('early') },
          optimizer: { maxLearningRate: undefined, learningRateDecayStyle: undefined },
          data: { tokenizerType: undefined },
        }),
      },
    ]);
    const [early, again] = results.map(([one]) => one!) as [TrainGptResult, TrainGptResult];
    expect(early.reason).toBe('early-stopping');
    const losses = validationLosses(early.output);
    expect(losses.at(-1)!).toBeGreaterThan(Math.min(...losses));
    expect(losses.slice(0, -1)).toEqual(losses.slice(0, -1).sort((a, b) => b - a));
    const numSteps = runs.readMetrics('early').length;
    expect(numSteps).toBe(2 * losses.length);
    expect(again.reason).toBe('early-stopping');
    expect(runs.readMetrics('early').length).toBe(numSteps);
  });
});
