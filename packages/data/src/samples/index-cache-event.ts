/** What happened to a cached index; programs print it, tests look at it. */
export interface IndexCacheEvent {
  /**
   * `loaded` from the cache; `built` because there was none; `rebuilt` because the cache was broken;
   * `not-written` when it was built but could not be kept.
   */
  readonly kind: 'loaded' | 'built' | 'rebuilt' | 'not-written';
  readonly directory: string;
  /** `{md5}-{class}` or `{md5}-{class}-{split}`: the start of the cache files' names. */
  readonly name: string;
  /** Why it was rebuilt or not written. */
  readonly reason?: string;
  readonly milliseconds: number;
}
