import { DataError } from '@mtl/errors';
import type { RandomState } from '../../random/random-state.js';
import type { CorpusPlace, CorpusSentences } from './corpus-sentences.js';

const sentencesOfContext = 2;
const question = 'Which word is out of place?';
// Commoner words say nothing of what a text is about; rarer ones fall into pieces in a small vocabulary,
// which would tell them apart without any knowledge of what they mean.
const ranks = { first: 150, behind: 2500 };
// How far apart in rank the word that goes and the one that comes may be: the rarer is not the answer.
const equallyCommon = { least: 0.7, most: 1.4 };
// Contexts without a word to exchange are rare in prose. So many in a row: there is none.
const mostAttempts = 1000;

/**
 * A file of SQuAD: contexts of two sentences in which one word was exchanged for one about as common, which
 * the whole work does not use and one of the works least like it does. The answer to the one question is that
 * word. In version 2.0 a third of the contexts are as they were, and the question has no answer. Throws
 * `MTL_DATA_TOO_FEW_DOCUMENTS` where works use too much the same words.
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
    const { original, context, answer, start } = exchangeWord(sentences, random);
    if (version === '2.0' && random.randint(0, 3) === 0) {
      return { context: original, qas: [{ question, id, answers: [], is_impossible: true }] };
    }
    // The format counts code points.
    const answers = [{ text: answer, answer_start: [...context.slice(0, start)].length }];
    const possible = version === '2.0' ? { is_impossible: false } : {};
    return { context, qas: [{ question, id, answers, ...possible }] };
  });
  return `${JSON.stringify({ version, data: [{ title: 'corpus', paragraphs }] })}\n`;
}

function exchangeWord(sentences: CorpusSentences, random: RandomState) {
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const place = sentences.run({ before: 0, after: sentencesOfContext - 1 });
    const original = sentences.textAt(place, sentencesOfContext);
    // Words of lower case that are not first: how a word is written does not give it away.
    const holes = [...original.matchAll(/(?<=\p{Ll}[,;]? )\p{Ll}{4,}(?=[ ,;.])/gu)].filter(([word]) =>
      hasRank(sentences.words.rankOf.get(word)!),
    );
    if (holes.length === 0) continue;
    const hole = holes[random.randint(0, holes.length)]!;
    const strangers = strangersFor({ place, word: hole[0], sentences });
    if (strangers.length === 0) continue;
    const answer = strangers[random.randint(0, strangers.length)]!;
    const end = hole.index + hole[0].length;
    const context = original.slice(0, hole.index) + answer + original.slice(end);
    return { original, context, answer, start: hole.index };
  }
  throw new DataError(
    'MTL_DATA_TOO_FEW_DOCUMENTS',
    `of ${mostAttempts} pairs of sentences none had a word to exchange for an equally common one of another work`,
    {
      expected: `works that use different words among the ${ranks.first + 1}th to ${ranks.behind}th commonest`,
      remedy: 'pass works on different subjects, or more of them',
    },
  );
}

/** Words about as common as one of a work, which the work does not use and an unlike one does. */
function strangersFor(options: {
  readonly place: CorpusPlace;
  readonly word: string;
  readonly sentences: CorpusSentences;
}): string[] {
  const { place, word, sentences } = options;
  const { words } = sentences;
  const other = sentences.otherWork(place, 'unlike');
  const rank = words.rankOf.get(word)!;
  return words.wordsOf(other).filter((one) => {
    const share = words.rankOf.get(one)! / rank;
    const isAsCommon = share >= equallyCommon.least && share <= equallyCommon.most;
    return isAsCommon && hasRank(words.rankOf.get(one)!) && one.length >= 4 && !words.has(place.work, one);
  });
}

function hasRank(rank: number): boolean {
  return rank >= ranks.first && rank < ranks.behind;
}
