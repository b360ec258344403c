/** A question with several answers, as texts that a model scores. */
export interface ChoiceQuestion {
  /** For each answer the text before it; the same for all, but where the answer is in the context. */
  readonly contexts: readonly string[];
  /** What is scored after each context. */
  readonly continuations: readonly string[];
  /** Characters of each answer, by which `acc_norm` divides; undefined of tasks that have no `acc_norm`. */
  readonly lengths: readonly number[] | undefined;
  /** The index of the right answer. */
  readonly gold: number;
}

/** What a row does not have: the task names the file and the line. */
export class UnusableRowError extends Error {}

/** A question whose answers follow one text, after a space. */
export function questionOf(context: string, answers: readonly string[], gold: number): ChoiceQuestion {
  return {
    contexts: answers.map(() => context),
    continuations: answers.map((answer) => ` ${answer}`),
    // characters as Python counts them
    lengths: answers.map((answer) => [...answer].length),
    gold,
  };
}
