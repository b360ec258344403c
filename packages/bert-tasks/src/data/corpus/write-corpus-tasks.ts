import { join } from 'node:path';
import { RandomState } from '@mtl/data';
import { writeFileAtomically } from '@mtl/errors/files';
import { CorpusSentences, drawUntilReplaced, replaceWord, splitWorks } from './corpus-works.js';

/** The corpus, the sizes of the files, and the folder to write to. */
interface WriteCorpusTasksOptions {
  /** Complete works: at least 64 works of 32 or more sentences. */
  readonly documents: readonly string[];
  /** The folder to write to. It gets the folders MNLI, QQP, RACE and SQuAD. */
  readonly directory: string;
  readonly seed: number;
  /** The number of examples in each training file; for RACE, the number of questions. Default: 2,000. */
  readonly numTraining?: number;
  /** The number of examples in each dev and test file. Default: 400. */
  readonly numEvaluation?: number;
}

// The minimum number of works. Each split has at least an eighth of the works, MNLI divides a split into
// halves, and each work needs three other works, including the least similar work.
const fewestWorks = 64;
const parts = ['train', 'dev', 'test'] as const;
type Part = (typeof parts)[number];

/**
 * Writes small tasks in the official formats of MNLI, QQP, RACE and SQuAD 1.1 and 2.0, made from a corpus. A
 * model that was trained on similar text solves them better than a model that was not. Training, dev and test
 * files use separate works (6 : 1 : 1); MNLI's matched and mismatched files use separate works of a split.
 * The same documents, sizes and seed give the same bytes. Throws `MTL_DATA_TOO_FEW_DOCUMENTS`.
 */
export function writeCorpusTasks(options: WriteCorpusTasksOptions): void {
  const { documents, directory, seed, numTraining = 2000, numEvaluation = 400 } = options;
  const split = splitWorks(documents, fewestWorks);
  const order = Uint32Array.from(split.keys());
  new RandomState(seed).shuffle(order);
  const works = Array.from(order, (work) => split[work]!);
  const eighth = Math.floor(works.length / 8);
  const worksByPart: Record<Part, string[][]> = {
    dev: works.slice(0, eighth),
    test: works.slice(eighth, 2 * eighth),
    train: works.slice(2 * eighth),
  };
  // each file has a separate stream of random numbers, so that the size of a file does not affect the other
  // files
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
    write(['QQP', `${part}.tsv`], corpusQqp({ ...draw(worksByPart[part]), count, withLabels }));
    writeMnli({ part, works: worksByPart[part], count, draw, write });
    for (const level of ['high', 'middle'] as const) {
      const drawn = draw(worksByPart[part]);
      // The count is divided by 4, because a passage has two questions and there are two levels.
      for (let number = 0; number < Math.ceil(count / 4); number++) {
        write(['RACE', part, level, `${number}.txt`], corpusPassage({ ...drawn, level, number }));
      }
    }
    if (part === 'test') continue;
    for (const version of ['1.1', '2.0'] as const) {
      const name = `${part}-v${version}.json`;
      write(['SQuAD', name], corpusSquad({ ...draw(worksByPart[part]), count, version }));
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

const mnliColumns = [
  'index',
  'promptID',
  'pairID',
  'genre',
  'sentence1_binary_parse',
  'sentence2_binary_parse',
  'sentence1_parse',
  'sentence2_parse',
  'sentence1',
  'sentence2',
];

// The number of sentences in a text. A single sentence does not show the subject of a work, and two texts of
// three sentences do not fit into 128 tokens.
const sentencesOfText = 2;
const mnliLabels = ['entailment', 'neutral', 'contradiction'] as const;
const wordsReplaced = 3;

/**
 * Returns the contents of a file in the format of QQP, with pairs of sentences. The label is 1 if the second
 * sentence follows the first sentence in the same work, and 0 if it is from a different work.
 */
function corpusQqp(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly count: number;
  readonly withLabels: boolean;
}): string {
  const { sentences, random, count, withLabels } = options;
  const rows = [
    withLabels ? 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate' : 'id\tquestion1\tquestion2',
  ];
  for (let i = 0; i < count; i++) {
    const place = sentences.run({ before: 0, after: 1 });
    const label = random.randint(0, 2);
    const pair = [sentences.at(place), label === 1 ? sentences.at(place, 1) : sentences.elsewhere(place)];
    rows.push((withLabels ? [i, 2 * i + 1, 2 * i + 2, ...pair, label] : [i, ...pair]).join('\t'));
  }
  return `${rows.join('\n')}\n`;
}

/**
 * Returns the contents of a file in the format of MNLI. Each premise is two sentences. The hypothesis is the
 * next two sentences (entailment), two sentences of one of the least similar works (neutral), or the next two
 * sentences with three words replaced by words that the work does not use (contradiction). The columns for
 * parse trees are empty. Throws `MTL_DATA_TOO_FEW_DOCUMENTS` if the works' words are too similar.
 */
function corpusMnli(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly count: number;
  readonly genre: string;
  readonly withLabels: boolean;
}): string {
  const { sentences, random, count, genre, withLabels } = options;
  const rows = [[...mnliColumns, ...(withLabels ? ['label1', 'gold_label'] : [])].join('\t')];
  for (let i = 0; i < count; i++) {
    const label = mnliLabels[random.randint(0, mnliLabels.length)]!;
    const texts = drawUntilReplaced(() => drawPair({ sentences, random, label }));
    const names = [i, i, `${i}${label[0]}`, genre, '', '', '', ''];
    rows.push([...names, ...texts, ...(withLabels ? [label, label] : [])].join('\t'));
  }
  return `${rows.join('\n')}\n`;
}

/**
 * Draws the two texts of an MNLI example; returns undefined if the second text has too few replaceable words.
 */
function drawPair(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly label: (typeof mnliLabels)[number];
}): [string, string] | undefined {
  const { sentences, random, label } = options;
  const place = sentences.run({ before: 0, after: 2 * sentencesOfText - 1 });
  const first = sentences.textAt(place, sentencesOfText);
  if (label === 'neutral') {
    const other = sentences.chooseRun(sentences.unlikeWork(place), sentencesOfText);
    return [first, sentences.textAt(other, sentencesOfText)];
  }
  let text = sentences.textAt({ ...place, sentence: place.sentence + sentencesOfText }, sentencesOfText);
  if (label === 'entailment') return [first, text];
  for (let i = 0; i < wordsReplaced; i++) {
    const replaced = replaceWord({ text, place, sentences, random });
    if (replaced === undefined) return undefined;
    text = replaced.text;
  }
  return [first, text];
}

const sentencesOfArticle = 5;

/**
 * Returns a passage in the format of RACE: five sentences, with questions about the next sentence and the
 * previous one. The wrong options come from other works (level middle) or from the same work (level high).
 */
function corpusPassage(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly level: 'high' | 'middle';
  readonly number: number;
}): string {
  const { sentences, random, level, number } = options;
  const place = sentences.run({ before: 1, after: sentencesOfArticle });
  const article = Array.from({ length: sentencesOfArticle }, (_, i) => sentences.at(place, i)).join(' ');
  const questions = [
    { text: 'Which sentence follows?', right: sentences.at(place, sentencesOfArticle) },
    { text: 'Which sentence stands before?', right: sentences.at(place, -1) },
  ].map(({ text, right }) => {
    const wrong = level === 'high' ? sentences.farFrom(place) : sentences.elsewhere(place);
    const options = [wrong, sentences.elsewhere(place), sentences.elsewhere(place)];
    const answer = random.randint(0, 4);
    options.splice(answer, 0, right);
    return { text, options, answer: 'ABCD'[answer]! };
  });
  return JSON.stringify({
    answers: questions.map(({ answer }) => answer),
    options: questions.map(({ options }) => options),
    questions: questions.map(({ text }) => text),
    article,
    id: `${level}${number}.txt`,
  });
}

const sentencesOfContext = 2;
const question = 'Which word is out of place?';

/**
 * Returns the contents of a file in the format of SQuAD. A context consists of two sentences with one
 * replaced word (see `replaceWord`). It has a single question, and the answer is the new word. In version
 * 2.0, a third of the contexts are unchanged, and their question has no answer. Throws
 * `MTL_DATA_TOO_FEW_DOCUMENTS` if the works' words are too similar.
 */
export function corpusSquad(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly count: number;
  readonly version: '1.1' | '2.0';
}): string {
  const { sentences, random, count, version } = options;
  const paragraphs = Array.from({ length: count }, (_, number) => {
    const id = `${version}-${number}`;
    const { original, replaced } = drawUntilReplaced(() => {
      const place = sentences.run({ before: 0, after: sentencesOfContext - 1 });
      const text = sentences.textAt(place, sentencesOfContext);
      const replaced = replaceWord({ text, place, sentences, random });
      return replaced && { original: text, replaced };
    });
    if (version === '2.0' && random.randint(0, 3) === 0) {
      return { context: original, qas: [{ question, id, answers: [], is_impossible: true }] };
    }
    const { text: context, word, start } = replaced;
    // the format counts code points, and not UTF-16 units
    const answers = [{ text: word, answer_start: [...context.slice(0, start)].length }];
    const possible = version === '2.0' ? { is_impossible: false } : {};
    return { context, qas: [{ question, id, answers, ...possible }] };
  });
  return `${JSON.stringify({ version, data: [{ title: 'corpus', paragraphs }] })}\n`;
}
