import { type Flags, type ParsedFlags, type ResolvedFlags, resolveFlags } from '@mtl/configuration';
import { type FetchFromHubOptions, fetchFromHub } from './fetch-from-hub.js';

/**
 * Returns the flags with each name of a Hub model in --load-hf, --load-lora or --tokenizer-model replaced by
 * the model's directory in the cache. Files that are missing in the cache are downloaded.
 *
 * @throws the errors of `fetchFromHub`
 */
export async function withHubModels(flags: ParsedFlags, options: FetchFromHubOptions): Promise<ParsedFlags> {
  const {
    'load-hf': loadHuggingFace,
    'load-lora': loadLora,
    'tokenizer-model': tokenizerModel,
  } = flags.values;
  const places = { loadHuggingFace, loadLora, tokenizerModel };
  const found = await fetchFromHub(places, options);
  if (found === places) return flags;
  const directories = new Map<string, string | undefined>([
    ['load-hf', found.loadHuggingFace],
    ['load-lora', found.loadLora],
    ['tokenizer-model', found.tokenizerModel],
  ]);
  const located = <Name extends string>(values: Iterable<readonly [Name, unknown]>): [Name, unknown][] =>
    [...values].map(([name, value]) => [name, directories.get(name) ?? value]);
  const { request } = flags;
  const { file, unused } = request;
  const changed = {
    ...request,
    given: new Map(located(request.given)),
    ...(file === undefined ? {} : { file: { ...file, values: new Map(located(file.values)) } }),
    ...(unused === undefined
      ? {}
      : { unused: Object.fromEntries(located(Object.entries(unused))) as unknown as Flags }),
  };
  const resolved: ResolvedFlags = resolveFlags(changed);
  return { ...flags, ...resolved, request: changed };
}
