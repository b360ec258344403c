import type { RandomState } from '../../random/random-state.js';
import type { CorpusSentences } from './corpus-sentences.js';
import { drawUntilReplaced, replaceWord } from './replace-word.js';

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

// One sentence says too little of what a work is about; three of each do not fit into 128 tokens.
const sentencesOfText = 2;
const mnliLabels = ['entailment', 'neutral', 'contradiction'] as const;
const wordsReplaced = 3;

/** A file of QQP: is the second sentence the next one of the same work (1), or of another work (0)? */
export function corpusQqp(options: {
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
 * A file of MNLI: two sentences, and two that follow them (entailment), or of one of the works least like
 * theirs (neutral), or that follow them, with three words replaced by words that the work does not use
 * (contradiction). Parses are left empty. Throws `MTL_DATA_TOO_FEW_DOCUMENTS` where works use too much the
 * same words.
 */
export function corpusMnli(options: {
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

/** Two texts of MNLI; undefined where the second one has too few words to replace. */
function drawPair(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly label: (typeof mnliLabels)[number];
}): [string, string] | undefined {
  const { sentences, random, label } = options;
  const place = sentences.run({ before: 0, after: 2 * sentencesOfText - 1 });
  const first = sentences.textAt(place, sentencesOfText);
  if (label === 'neutral') {
    const other = sentences.runOf(sentences.unlikeWork(place), sentencesOfText);
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
