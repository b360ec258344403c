import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { TaskJson, taskError } from './task-files.js';

/** A question about an article, with its four options. */
export interface MultipleChoiceExample {
  /** The passage's id, for example `high123.txt`. */
  readonly passage: string;
  /** The index of the question in its passage, from 0. */
  readonly question: number;
  readonly article: string;
  readonly questionText: string;
  readonly options: readonly string[];
  /** Index of the correct option. */
  readonly label: number;
  /**
   * The half of RACE to which the question belongs; undefined if the directory is not divided into halves.
   */
  readonly level: 'high' | 'middle' | undefined;
}

/** The number of options for each RACE question. */
const raceChoices = 4;
const letters = ['A', 'B', 'C', 'D'];
const levels = ['high', 'middle'] as const;

/**
 * Reads one split of RACE (`RACE/train`, `RACE/dev`, `RACE/test`), which has the folders `high/` and
 * `middle/` (or only one of the two). The directory may also be `high/` or `middle/` itself. Each `*.txt`
 * contains one JSON passage. Passages are sorted by their numbers, high before middle. Throws
 * `MTL_DATA_TASK_FILE` and `MTL_DATA_TASK_LABEL`, which name file and question.
 */
export function readRaceDirectory(directory: string): MultipleChoiceExample[] {
  const names = list(directory);
  const halves = levels.filter((level) => names.includes(level));
  const folders =
    halves.length === 0
      ? [
          {
            path: directory,
            level: levels.find((level) => directory.replace(/\/+$/, '').endsWith(`/${level}`)),
          },
        ]
      : halves.map((level) => ({ path: join(directory, level), level }));
  const examples = folders.flatMap(({ path, level }) =>
    list(path)
      .filter((name) => name.endsWith('.txt'))
      .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10) || (a < b ? -1 : 1))
      .flatMap((name) => readPassage({ path: join(path, name), level })),
  );
  if (examples.length === 0) {
    throw taskError({
      code: 'MTL_DATA_TASK_FILE',
      path: directory,
      what: 'has no passages of RACE',
      expected: 'folders high and middle with .txt files, or such files themselves',
      remedy: 'pass RACE/train, RACE/dev or RACE/test',
    });
  }
  return examples;
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (cause) {
    const what = `cannot be listed (${(cause as Error).message})`;
    throw taskError({
      code: 'MTL_DATA_TASK_FILE',
      path: directory,
      what,
      expected: 'a directory of RACE',
      cause,
    });
  }
}

function readPassage(options: {
  path: string;
  level: 'high' | 'middle' | undefined;
}): MultipleChoiceExample[] {
  const { path, level } = options;
  const json = TaskJson.read(path);
  const article = json.get('article').text();
  const passage = json.get('id').text();
  const questions = json.get('questions').list();
  const optionLists = json.get('options').list();
  const answers = json.get('answers').list();
  for (const [key, found] of Object.entries({ options: optionLists, answers })) {
    if (found.length !== questions.length) {
      json.get(key).fail(`has ${found.length} entries`, `${questions.length}, one for each question`);
    }
  }
  return questions.map((question, i) => {
    const choices = optionLists[i]!.list();
    if (choices.length !== raceChoices) {
      optionLists[i]!.fail(`has ${choices.length} options`, `${raceChoices}`);
    }
    const answer = answers[i]!;
    const label = letters.indexOf(answer.text());
    if (label < 0)
      answer.fail(`is ${JSON.stringify(answer.value)}`, letters.join(', '), 'MTL_DATA_TASK_LABEL');
    return {
      passage,
      question: i,
      article,
      questionText: question.text(),
      options: choices.map((choice) => choice.text()),
      label,
      level,
    };
  });
}
