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
 * A file of MNLI: the second sentence is the next one (entailment), one of the same work far away (neutral),
 * or of another work (contradiction). Parses are left empty.
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
    const place = sentences.run({ before: 0, after: 1 });
    const kind = random.randint(0, 3);
    const second =
      kind === 0
        ? sentences.at(place, 1)
        : kind === 1
          ? sentences.farFrom(place)
          : sentences.elsewhere(place);
    const label = ['entailment', 'neutral', 'contradiction'][kind]!;
    const names = [i, i, `${i}${label[0]}`, genre, '', '', '', ''];
    rows.push([...names, sentences.at(place), second, ...(withLabels ? [label, label] : [])].join('\t'));
  }
  return `${rows.join('\n')}\n`;
}
