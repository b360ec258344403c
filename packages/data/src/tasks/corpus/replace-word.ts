import { DataError } from '@mtl/errors';
import type { RandomState } from '../../random/random-state.js';
import type { CorpusPlace, CorpusSentences } from './corpus-sentences.js';

// Commoner words say nothing of what a text is about; rarer ones become several tokens in a small vocabulary,
// which would tell them apart without any knowledge of what they mean.
const ranks = { first: 150, behind: 2500 };
// How far apart in rank the old word and the new one may be: the rarer is not the answer.
// Tenths: their bounds are exact.
const equallyCommon = { least: 7, most: 14 };
// Texts without a word to replace are rare in prose. So many in a row: there is none.
const mostAttempts = 1000;

/** A text in which a word was replaced, and the position of the new one (UTF-16 units). */
export interface ReplacedWord {
  readonly text: string;
  readonly word: string;
  readonly start: number;
}

/**
 * Replaces a word of a work's text by one about as common, which the whole work does not use and one of the
 * works least like it does. Undefined where no word can be replaced.
 */
export function replaceWord(options: {
  readonly text: string;
  readonly place: CorpusPlace;
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
}): ReplacedWord | undefined {
  const { text, place, sentences, random } = options;
  const { words } = sentences;
  // Words of lower case that are not first: how a word is written does not give it away.
  const holes = [...text.matchAll(/(?<=\p{Ll}[,;]? )\p{Ll}{4,}(?=[ ,;.])/gu)].filter(
    ([hole]) => words.has(place.work, hole) && hasRank(words.rankOf.get(hole)!),
  );
  if (holes.length === 0) return undefined;
  const hole = holes[random.randint(0, holes.length)]!;
  const strangers = strangersFor({ place, word: hole[0], sentences });
  if (strangers.length === 0) return undefined;
  const word = strangers[random.randint(0, strangers.length)]!;
  const end = hole.index + hole[0].length;
  return { text: text.slice(0, hole.index) + word + text.slice(end), word, start: hole.index };
}

/**
 * What a function gives that gives undefined where a draw was in vain. Throws `MTL_DATA_TOO_FEW_DOCUMENTS`.
 */
export function drawUntilReplaced<Drawn>(draw: () => Drawn | undefined): Drawn {
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const drawn = draw();
    if (drawn !== undefined) return drawn;
  }
  throw new DataError(
    'MTL_DATA_TOO_FEW_DOCUMENTS',
    `in ${mostAttempts} texts no word could be replaced by an equally common one of another work`,
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
  const other = sentences.unlikeWork(place);
  const rank = words.rankOf.get(word)!;
  const first = Math.max(ranks.first, (equallyCommon.least * rank) / 10);
  const last = Math.min(ranks.behind - 1, (equallyCommon.most * rank) / 10);
  return words
    .wordsOf(other, { first, last })
    .filter((one) => one.length >= 4 && !words.has(place.work, one));
}

function hasRank(rank: number): boolean {
  return rank >= ranks.first && rank < ranks.behind;
}
