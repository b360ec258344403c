import type { RandomState } from '../../random/random-state.js';
import type { CorpusSentences } from './corpus-sentences.js';
import { drawUntilReplaced, replaceWord } from './replace-word.js';

const sentencesOfContext = 2;
const question = 'Which word is out of place?';

/**
 * A file of SQuAD: contexts of two sentences in which one word was replaced (`replaceWord`). The answer to
 * the one question is the new word. In version 2.0 a third of the contexts are as they were, and the question
 * has no answer. Throws `MTL_DATA_TOO_FEW_DOCUMENTS` where works use too much the same words.
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
    // The format counts code points.
    const answers = [{ text: word, answer_start: [...context.slice(0, start)].length }];
    const possible = version === '2.0' ? { is_impossible: false } : {};
    return { context, qas: [{ question, id, answers, ...possible }] };
  });
  return `${JSON.stringify({ version, data: [{ title: 'corpus', paragraphs }] })}\n`;
}
