import { ConfigurationError } from '@mtl/errors';

/** A function that splits a text into sentences without the white space around them. */
export type SentenceSplitter = (text: string) => string[];

// Words before names. A full stop after such a word does not end a sentence.
const beforeNames =
  'mr mrs ms messrs mme dr prof rev fr hon gen maj col capt cmdr adm lt sgt sen rep gov pres supt st mt ft v vs';
// Words that a number follows.
const beforeNumbers =
  'no nos p pp fig figs sec secs art ch vol vols pt par jan feb mar apr jun jul aug sept oct nov dec';
const ending = (words: string) => new RegExp(`(?:^|[\\s([“"'])(?:${words.replaceAll(' ', '|')})\\.$`, 'i');
const endsBeforeName = ending(beforeNames);
const endsBeforeNumber = ending(beforeNumbers);
/**
 * Matches an initial at the end of a text: a capital letter and its full stop. Several consecutive initials
 * ("U.S.") are not matched, because they may end a sentence.
 */
const endsWithInitial = /(?:^|[\s([“"'])\p{Lu}\.$/u;
const blankLine = /\n[^\S\n]*\n/;
const firstWindow = 4096;

/**
 * Splits a text by Unicode's rules (UAX 29, `Intl.Segmenter`), then rejoins sentences that were split too
 * early: after English titles, after initials, after abbreviations before numbers, and before a lower-case
 * letter. Blank lines end a sentence, single line breaks do not. Throws `MTL_DATA_LOCALE` for an invalid
 * locale.
 */
export function createSentenceSplitter({
  locale = 'en',
}: {
  readonly locale?: string;
} = {}): SentenceSplitter {
  const segmenter = makeSegmenter(locale);
  const isEnglish = new Intl.Locale(locale).language === 'en';
  return (text) => {
    const sentences: string[] = [];
    for (const paragraph of text.replaceAll(/\r\n?/g, '\n').split(blankLine)) {
      const firstOfParagraph = sentences.length;
      for (const segment of segments(segmenter, paragraph.replaceAll('\n', ' '))) {
        const trimmed = segment.trim();
        if (trimmed === '') continue;
        const last = sentences.length - 1;
        if (
          last >= firstOfParagraph &&
          belongTogether({ before: sentences[last]!, after: trimmed, isEnglish })
        ) {
          sentences[last] += ` ${trimmed}`;
        } else {
          sentences.push(trimmed);
        }
      }
    }
    return sentences;
  };
}

function makeSegmenter(locale: string): Intl.Segmenter {
  try {
    return new Intl.Segmenter(locale, { granularity: 'sentence' });
  } catch (cause) {
    throw new ConfigurationError('MTL_DATA_LOCALE', `"${locale}" is not a language tag`, {
      expected: 'a BCP 47 tag such as en, de or pt-BR',
      remedy: 'pass for example --lang en',
      cause,
    });
  }
}

/**
 * Yields the segments of `text`. Processes the text in windows, because the segmenter's time grows with the
 * square of its input's length.
 */
function* segments(segmenter: Intl.Segmenter, text: string): Generator<string, void, undefined> {
  let window = firstWindow;
  for (let start = 0; start < text.length; ) {
    const end = Math.min(text.length, start + window);
    const found = Array.from(segmenter.segment(text.slice(start, end)), ({ segment }) => segment);
    // the last sentence may continue after the window
    if (end < text.length && found.pop() !== undefined && found.length === 0) {
      window *= 2;
      continue;
    }
    window = firstWindow;
    for (const segment of found) {
      yield segment;
      start += segment.length;
    }
  }
}

function belongTogether(options: { before: string; after: string; isEnglish: boolean }): boolean {
  const { before, after, isEnglish } = options;
  if (/^\p{Ll}/u.test(after)) return true;
  if (!isEnglish || !before.endsWith('.')) return false;
  if (endsBeforeName.test(before)) return true;
  if (/^[\dIVXLC]/.test(after) && endsBeforeNumber.test(before)) return true;
  return endsWithInitial.test(before);
}
