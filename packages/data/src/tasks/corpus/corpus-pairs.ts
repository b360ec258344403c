import type { RandomState } from '../../random/random-state.js';
import type { CorpusSentences } from './corpus-sentences.js';

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
const mnliClasses = [
  { label: 'entailment', kind: 'next' },
  { label: 'neutral', kind: 'middling' },
  { label: 'contradiction', kind: 'unlike' },
] as const;

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
 * A file of MNLI: two sentences, and two that follow them (entailment), or of a work that is neither like nor
 * unlike (neutral), or of one of the works least like theirs (contradiction). Parses are left empty.
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
    const place = sentences.run({ before: 0, after: 2 * sentencesOfText - 1 });
    const { label, kind } = mnliClasses[random.randint(0, mnliClasses.length)]!;
    const second =
      kind === 'next'
        ? { ...place, sentence: place.sentence + sentencesOfText }
        : sentences.runOf(sentences.otherWork(place, kind), sentencesOfText);
    const texts = [place, second].map((one) => sentences.textAt(one, sentencesOfText));
    const names = [i, i, `${i}${label[0]}`, genre, '', '', '', ''];
    rows.push([...names, ...texts, ...(withLabels ? [label, label] : [])].join('\t'));
  }
  return `${rows.join('\n')}\n`;
}
