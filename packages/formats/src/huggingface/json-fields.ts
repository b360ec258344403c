import { existsSync } from 'node:fs';
import { CheckpointError } from '@mtl/errors';
import { fileProblem, readRegularFile } from '@mtl/errors/files';

// The maximum size of a configuration. A larger file is not a configuration.
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
 * The JSON object in a file of a model directory, read field by field. A field with a wrong type is a coded
 * error that names the file.
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
   * Reads the object in a file.
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
   * Returns the value of the first of the names that exists. null counts as absent, so that the default is
   * returned.
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
   * Returns the error for a field whose value no supported model has. `what` names the component that needs
   * the value. Default: the model.
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

  /** Returns the error for a field with an unusable value. */
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
 * Parses JSON as Python writes it. `Infinity`, `-Infinity` and `NaN`, which JSON lacks, become `{"__float__":
 * "Infinity"}` and so on, in the notation of transformers 5.
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
