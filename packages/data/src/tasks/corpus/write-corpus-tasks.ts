import { join } from 'node:path';
import { writeFileAtomically } from '../../files/write-files.js';
import { RandomState } from '../../random/random-state.js';
import { corpusPassage } from './corpus-choices.js';
import { corpusMnli, corpusQqp } from './corpus-pairs.js';
import { CorpusSentences, splitWorks } from './corpus-sentences.js';
import { corpusSquad } from './corpus-spans.js';

/** From which works, how much, where to. */
export interface WriteCorpusTasksOptions {
  /** Whole works: at least 64 of 32 or more sentences. */
  readonly documents: readonly string[];
  /** Gets the folders MNLI, QQP, RACE and SQuAD. */
  readonly directory: string;
  readonly seed: number;
  /** Examples of each training file (2,000); for RACE as many questions. */
  readonly numTraining?: number;
  /** Examples of each other file (400). */
  readonly numEvaluation?: number;
}

// An eighth is a part, MNLI halves it, and a work needs three others, of which one is the least like it.
const fewestWorks = 64;
const parts = ['train', 'dev', 'test'] as const;
type Part = (typeof parts)[number];

/**
 * Writes small tasks in the official formats of MNLI, QQP, RACE and SQuAD 1.1 and 2.0, made from a corpus:
 * what a model that was trained on such text knows better than one that was not. Training, dev and test files
 * draw from works of their own (6 : 1 : 1), MNLI's mismatched files from other works of the same part than
 * its matched ones. The same documents, sizes and seed give the same bytes. Throws
 * `MTL_DATA_TOO_FEW_DOCUMENTS`.
 */
export function writeCorpusTasks(options: WriteCorpusTasksOptions): void {
  const { documents, directory, seed, numTraining = 2000, numEvaluation = 400 } = options;
  const split = splitWorks(documents, fewestWorks);
  const order = Uint32Array.from(split.keys());
  new RandomState(seed).shuffle(order);
  const works = Array.from(order, (work) => split[work]!);
  const eighth = Math.floor(works.length / 8);
  const worksOf: Record<Part, string[][]> = {
    dev: works.slice(0, eighth),
    test: works.slice(eighth, 2 * eighth),
    train: works.slice(2 * eighth),
  };
  // A stream for each file: the size of one does not change another.
  let streams = 0;
  const draw = (ofWorks: readonly string[][]) => {
    const random = new RandomState((seed + ++streams) % 4294967296);
    return { random, sentences: new CorpusSentences({ works: ofWorks, random }) };
  };
  const write = (path: readonly string[], text: string) =>
    writeFileAtomically(join(directory, ...path), [text]);
  for (const part of parts) {
    const count = part === 'train' ? numTraining : numEvaluation;
    const withLabels = part !== 'test';
    write(['QQP', `${part}.tsv`], corpusQqp({ ...draw(worksOf[part]), count, withLabels }));
    writeMnli({ part, works: worksOf[part], count, draw, write });
    for (const level of ['high', 'middle'] as const) {
      const drawn = draw(worksOf[part]);
      // Two questions a passage, two levels.
      for (let number = 0; number < Math.ceil(count / 4); number++) {
        write(['RACE', part, level, `${number}.txt`], corpusPassage({ ...drawn, level, number }));
      }
    }
    if (part === 'test') continue;
    for (const version of ['1.1', '2.0'] as const) {
      const name = `${part}-v${version}.json`;
      write(['SQuAD', name], corpusSquad({ ...draw(worksOf[part]), count, version }));
    }
  }
}

function writeMnli(options: {
  part: Part;
  works: readonly string[][];
  count: number;
  draw: (works: readonly string[][]) => { random: RandomState; sentences: CorpusSentences };
  write: (path: readonly string[], text: string) => void;
}): void {
  const { part, works, count, draw, write } = options;
  if (part === 'train') {
    const text = corpusMnli({ ...draw(works), count, genre: 'matched', withLabels: true });
    write(['MNLI', 'train.tsv'], text);
    return;
  }
  const half = Math.ceil(works.length / 2);
  const halves = { matched: works.slice(0, half), mismatched: works.slice(half) };
  for (const [genre, ofWorks] of Object.entries(halves)) {
    const text = corpusMnli({ ...draw(ofWorks), count, genre, withLabels: part === 'dev' });
    write(['MNLI', `${part}_${genre}.tsv`], text);
  }
}
