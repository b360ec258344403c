import type { RandomState } from '../../random/random-state.js';
import type { CorpusSentences } from './corpus-sentences.js';

const sentencesOfArticle = 5;

/**
 * A passage of RACE: five sentences, and which sentence follows them and which stands before them. The wrong
 * options come from other works (middle) or from the same one (high).
 */
export function corpusPassage(options: {
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
