import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  FineTuningConfiguration,
  FineTuningTaskName,
} from '../../src/flags/fine-tuning-configuration.js';

const words = ['red', 'blue', 'green', 'one', 'two', 'three', 'cat', 'dog', 'bird', 'says', 'who', 'answer'];

/** Files of every task, simple enough for a model of a few thousand parameters to learn from in seconds. */
export class SmallTasks {
  readonly directory = mkdtempSync(join(tmpdir(), 'mtl-fine-tuning-'));

  readonly #microBatchSize: number;

  /**
   * @param options.microBatchSize rows of a micro-batch. A step has 8 samples in micro-batches of 2, unless
   *   this is larger
   */
  constructor({ microBatchSize = 2 } = {}) {
    this.#microBatchSize = microBatchSize;
    this.write('vocab.txt', `${['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', '_', ...words].join('\n')}\n`);
    const qqp = (count: number): string =>
      Array.from({ length: count }, (_, index) => {
        // questions vary in length; the word that decides the label is in the second question
        const label = Number(index % 3 !== 0);
        const tail = words.slice(3, 4 + ((index * 7) % 5)).join(' ');
        return `${index}\t0\t0\tred ${tail}\t${label === 1 ? 'cat cat cat' : 'dog dog dog'}\t${label}\n`;
      }).join('');
    const header = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n';
    this.write('QQP/train.tsv', `${header}${qqp(45)}`);
    this.write('QQP/dev.tsv', `${header}${qqp(21)}`);
    this.write('QQP/test.tsv', 'id\tquestion1\tquestion2\n0\tred cat\tblue dog\n1\tred cat\tred says\n');
    this.#writeRace();
    for (const [part, count] of Object.entries({ train: 24, dev: 11 })) {
      this.write(`SQuAD/${part}-v2.0.json`, JSON.stringify(squad(count)));
    }
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string): string {
    const path = this.path(name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  #writeRace(): void {
    for (const [part, count] of Object.entries({ train: 12, dev: 5 })) {
      for (let number = 0; number < count; number++) {
        const passage = {
          id: `high${number}.txt`,
          article: 'the cat says one . the dog says two . the bird says three .',
          questions: ['the cat says _', 'who says ?'],
          options: [
            ['one', 'two', 'three', 'red'],
            ['red', 'two', 'one', 'three'],
          ],
          answers: ['A', 'C'],
        };
        this.write(`RACE/${part}/high/${number}.txt`, JSON.stringify(passage));
      }
    }
  }

  /** Returns the configuration of a BERT of one layer, from scratch, for one of the tasks. */
  configuration(
    task: FineTuningTaskName,
    changes: Partial<FineTuningConfiguration> = {},
  ): FineTuningConfiguration {
    const data = {
      mnli: { train: 'none', valid: [], test: [] },
      qqp: { train: 'QQP/train.tsv', valid: ['QQP/dev.tsv'], test: [] },
      race: { train: 'RACE/train', valid: ['RACE/dev'], test: [] },
      squad: { train: 'SQuAD/train-v2.0.json', valid: ['SQuAD/dev-v2.0.json'], test: [] },
    }[task];
    return {
      task,
      data: { ...data, train: this.path(data.train), valid: data.valid.map((name) => this.path(name)) },
      start: {
        load: undefined,
        checkpointStep: undefined,
        loadHuggingFace: undefined,
        initialWeights: false,
        scratch: { numLayers: 1, hiddenSize: 32, numAttentionHeads: 2, layerNormPlacement: 'pre' },
        tokenizer: { type: 'BertWordPieceLowerCase', vocabFile: this.path('vocab.txt') },
      },
      sequenceLength: 32,
      spans: { documentStride: 8, maximumQueryLength: 12, maximumAnswerLength: 4 },
      epochs: 3,
      globalBatchSize: 8,
      microBatchSize: this.#microBatchSize,
      optimizer: {
        learningRate: 5e-3,
        minLearningRate: 0,
        decayStyle: 'linear',
        warmupFraction: 0.1,
        weightDecay: 0.01,
        clipGrad: 1,
      },
      dropout: 0.1,
      precision: 'fp32',
      parallel: { threads: 1 },
      recompute: {},
      checkpoint: {
        save: undefined,
        saveHuggingFace: undefined,
        saveInterval: undefined,
        keepLast: 1,
        resume: false,
      },
      logInterval: 100,
      metricsJsonl: undefined,
      tracking: {},
      exitInterval: undefined,
      seeds: [1234],
      flags: {},
      ...changes,
    };
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function squad(count: number) {
  const context = 'the cat says one . the dog says two . the bird says three .';
  const qas = Array.from({ length: count }, (_, index) => {
    const isImpossible = index % 4 === 3;
    const answers = isImpossible ? [] : [{ text: 'one', answer_start: context.indexOf('one') }];
    const question = isImpossible ? 'red says who' : `the cat says ${words[3 + (index % 3)]}`;
    return { id: `q${index}`, question, answers, is_impossible: isImpossible };
  });
  return { version: 'v2.0', data: [{ title: 'pets', paragraphs: [{ context, qas }] }] };
}
