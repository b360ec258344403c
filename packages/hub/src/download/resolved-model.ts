/** A model in the cache. */
export interface ResolvedModel {
  /** The directory with its files, as the transformers library reads it. */
  readonly directory: string;
  /** `org/name` */
  readonly name: string;
  /** The commit that the revision means. */
  readonly commit: string;
  /** The bytes that were fetched; 0 where all were in the cache. */
  readonly fetchedBytes: number;
}
