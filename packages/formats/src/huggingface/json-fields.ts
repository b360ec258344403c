import { existsSync } from 'node:fs';
import { CheckpointError } from '@mtl/errors';
import { fileProblem, readRegularFile } from '@mtl/errors/files';

// The maximum size of a configuration file, in bytes. A larger file cannot be a configuration.
const maximumBytes = 1 << 26;

/** Wording of error messages about fields. */
interface FieldTerms {
  readonly code: `MTL_${string}`;
  readonly remedy: string;
}

const configTerms: FieldTerms = {
  code: 'MTL_HUGGING_FACE_CONFIG',
  remedy: 'pass the directory of a model in the format of the transformers library, whole and unchanged',
};

type Kind = 'a positive integer' | 'a number' | 'a string' | 'true or false';

const tests: Record<Kind, (value: unknown) => boolean> = {
  'a positive integer': (value) => Number.isSafeInteger(value) && (value as number) > 0,
  'a number': (value) => typeof value === 'number' && Number.isFinite(value),
  'a string': (value) => typeof value === 'string',
  'true or false': (value) => typeof value === 'boolean',
};

/**
 * The JSON object in a model directory's file, which is read field by field. If a field has the wrong type, a
 * coded error names the file.
 */
export class JsonFields {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly #terms: FieldTerms;

  constructor(path: string, values: Readonly<Record<string, unknown>>, terms = configTerms) {
    this.path = path;
    this.values = values;
    this.#terms = terms;
  }

  /**
   * Reads the JSON object in the given file.
   *
   * @returns undefined if the file does not exist
   */
  static async read(path: string): Promise<JsonFields | undefined> {
    let text: string;
    try {
      text = readRegularFile(path, maximumBytes).toString('utf8');
    } catch (error) {
      if (!existsSync(path)) return undefined;
      throw refused(path, `it ${fileProblem(error)}`);
    }
    let parsed: unknown;
    try {
      parsed = parseConfigJson(text);
    } catch (error) {
      throw refused(path, `it is not JSON (${(error as Error).message})`);
    }
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) {
      return new JsonFields(path, parsed as Record<string, unknown>);
    }
    throw refused(path, 'it is not a JSON object', '{ "model_type": ... }');
  }

  /**
   * Returns the value of the first of `names` that exists, or the default `otherwise`. A null value counts as
   * absent.
   */
  optional<T>(names: string | readonly string[], kind: Kind, otherwise: T): T {
    for (const name of [names].flat()) {
      const value = this.values[name];
      if (value === undefined || value === null) continue;
      if (!tests[kind](value)) throw this.refuse(name, kind);
      return value as T;
    }
    return otherwise;
  }

  required<T>(names: string | readonly string[], kind: Kind): T {
    const value = this.optional<T | undefined>(names, kind, undefined);
    if (value === undefined) throw this.#refused(`${[names].flat()[0]} is missing`, kind);
    return value;
  }

  /**
   * Makes the error for a field whose value no supported model has. `needs` says what the value requires, and
   * `what` which component requires it. Default: the model.
   */
  unsupported(
    name: string,
    {
      needs,
      expected,
      what = 'the model',
      remedy = 'choose another model: this one cannot be computed here',
    }: { needs: string; expected: string; what?: string; remedy?: string },
  ): CheckpointError {
    const value = JSON.stringify(this.values[name]);
    const problem = `${name} is ${value}, which is not supported: ${what} needs ${needs}`;
    return new CheckpointError(this.#terms.code, `${this.path}: ${problem}`, {
      expected,
      remedy,
      exitCode: 2,
    });
  }

  /** Makes the error for a field with an unusable value. */
  refuse(name: string, expected: string): CheckpointError {
    const value = this.values[name];
    const problem = value === undefined ? 'missing, and its default does not fit' : JSON.stringify(value);
    return this.#refused(`${name} is ${problem}`, expected);
  }

  #refused(problem: string, expected: string): CheckpointError {
    return refused(this.path, problem, expected, this.#terms);
  }
}

function refused(path: string, problem: string, expected?: string, terms = configTerms): CheckpointError {
  return new CheckpointError(terms.code, `${path}: ${problem}`, {
    ...(expected === undefined ? {} : { expected }),
    remedy: terms.remedy,
    exitCode: 2,
  });
}

const stringOrWord = /"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/g;

/**
 * Parses JSON as Python writes it. JSON has no `Infinity`, `-Infinity` and `NaN`. They become objects such as
 * `{"__float__": "Infinity"}`, which is the notation of transformers 5.
 *
 * @throws SyntaxError
 */
function parseConfigJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const spelled = text.replace(stringOrWord, (found) =>
      found.startsWith('"') ? found : `{"__float__":"${found}"}`,
    );
    if (spelled === text) throw error;
    return JSON.parse(spelled);
  }
}
