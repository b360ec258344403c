import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { type JsonValue, parseJson } from '../python/python-json.js';
import { Template } from './renderer.js';
import { TemplateError } from './runtime.js';
import { toValue } from './values.js';

interface Outcome {
  readonly text?: string;
  /** The type of the exception that Python raises. */
  readonly error?: string;
  readonly message?: string;
}

// Fixture: tooling/fixtures/make-jinja-fixtures.py.
const zipped = readFileSync(new URL('../../fixtures/jinja.json.gz', import.meta.url));
const fixture = JSON.parse(gunzipSync(zipped).toString('utf8')) as {
  readonly context: string;
  readonly cases: readonly (Outcome & { readonly template: string })[];
  readonly families: readonly string[];
  readonly chats: readonly (Outcome & { readonly template: number; readonly context: string })[];
};

const marks = { start: '', end: '' };

function rendered(template: string, context: string): string {
  const values = parseJson(context) as ReadonlyMap<string, JsonValue>;
  return new Template(template).render({
    context: new Map([...values].map(([name, value]) => [name, toValue(value)])),
    hasNoText: () => false,
    marks,
  });
}

/** Returns the outcome of rendering a template, in the form of the fixture's results from Python. */
function renderOutcome(template: string, context: string, { error }: Outcome): Outcome {
  try {
    return { text: rendered(template, context) };
  } catch (cause) {
    expect(cause).toBeInstanceOf(TemplateError);
    return { ...(error === undefined ? {} : { error }), message: (cause as Error).message };
  }
}

// Errors about missing values and errors that the template raises must have the same message as in Python's
// Jinja.
const isWorded = ({ error }: Outcome) =>
  ['UndefinedError', 'TemplateError', 'TemplateRuntimeError', 'SecurityError', 'OverflowError'].includes(
    error ?? '',
  );

describe('a template', () => {
  it('renders every construct as Python, and refuses what Python refuses', () => {
    const wrong = fixture.cases.flatMap((one) => {
      const got = renderOutcome(one.template, fixture.context, one);
      const isSame = got.text === one.text && (!isWorded(one) || got.message === one.message);
      return isSame ? [] : [{ ...one, got }];
    });
    expect(fixture.cases.length).toBeGreaterThan(6000);
    expect(wrong).toEqual([]);
  });

  it.each(fixture.families.map((template, index) => ({ template, index })))(
    'renders conversations and functions as Python by template $index',
    ({ template, index }) => {
      const chats = fixture.chats.filter((chat) => chat.template === index);
      expect(chats.some(({ text }) => text !== undefined)).toBe(true);
      for (const chat of chats) {
        const got = renderOutcome(template, chat.context, chat);
        expect(got.text).toBe(chat.text);
        if (isWorded(chat)) expect(got.message).toBe(chat.message);
      }
    },
  );
});
