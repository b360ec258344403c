import type { RandomState } from '../../random/random-state.js';
import type { CorpusSentences } from './corpus-sentences.js';

const sentencesOfContext = 5;
const questionsOfContext = 3;
const hole = '_____';

/**
 * A file of SQuAD: contexts of five sentences, each question one of these sentences with a hole of one to
 * three words, which are the answer. In version 2.0 a third of the questions come from other works and have
 * no answer.
 */
export function corpusSquad(options: {
  readonly sentences: CorpusSentences;
  readonly random: RandomState;
  readonly count: number;
  readonly version: '1.1' | '2.0';
}): string {
  const { sentences, random, count, version } = options;
  const paragraphs = [];
  for (let numQuestions = 0; numQuestions < count; ) {
    const place = sentences.run({ before: 0, after: sentencesOfContext - 1 });
    const parts = Array.from({ length: sentencesOfContext }, (_, i) => sentences.at(place, i));
    const qas = [];
    for (let i = 0; i < questionsOfContext && numQuestions < count; i++) {
      const id = `${version}-${numQuestions++}`;
      if (version === '2.0' && random.randint(0, 3) === 0) {
        const { question } = makeHole(sentences.elsewhere(place), random);
        qas.push({ question, id, answers: [], is_impossible: true });
        continue;
      }
      const chosen = random.randint(0, parts.length);
      const { question, answer, start } = makeHole(parts[chosen]!, random);
      const before = parts.slice(0, chosen).reduce((sum, part) => sum + part.length + 1, 0);
      const context = parts.join(' ');
      // The format counts code points.
      const answerStart = [...context.slice(0, before + start)].length;
      const possible = version === '2.0' ? { is_impossible: false } : {};
      qas.push({ question, id, answers: [{ text: answer, answer_start: answerStart }], ...possible });
    }
    paragraphs.push({ context: parts.join(' '), qas });
  }
  return `${JSON.stringify({ version, data: [{ title: 'corpus', paragraphs }] })}\n`;
}

function makeHole(sentence: string, random: RandomState) {
  const words = [...sentence.matchAll(/\S+/g)];
  const length = Math.min(random.randint(1, 4), words.length);
  const first = random.randint(0, words.length - length + 1);
  const start = words[first]!.index;
  const last = words[first + length - 1]!;
  const end = last.index + last[0].length;
  const question = sentence.slice(0, start) + hole + sentence.slice(end);
  return { question, answer: sentence.slice(start, end), start };
}
