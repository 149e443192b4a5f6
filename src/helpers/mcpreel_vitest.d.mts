/* eslint-disable */
export type Mode = 'once' | 'none' | 'all' | 'new_episodes';

/** Most of it are options of `mcpreel use`, see `mcpreel use --help`. */
export interface Settings {
    /** Names the cassette where no test does. */
    name?: string;
    /** A file, in place of the one named after the test. */
    cassette?: string;
    /** Where cassettes named after tests are; MCPREEL_DIR says it too. */
    dir?: string;
    /** MCPREEL_MODE goes before it. */
    mode?: Mode;
    ordering?: 'per-key' | 'strict' | 'any';
    ignore?: string | string[];
    ignoreValue?: string | string[];
    matchInputs?: 'action' | 'exact' | 'keys';
    repeat?: 'last' | 'cycle' | 'never';
    strict?: boolean;
    rewriteProtocolVersion?: boolean;
    pace?: 'instant' | 'recorded';
    paceScale?: number;
    paceCapMs?: number;
    redact?: string | string[];
    noDefaultRedactions?: boolean;
    piiPacks?: string | string[];
    /** Seconds to wait for another test that records the same cassette (30). */
    claimWait?: number;
    /** Fail when a recorded tool call was not asked for. */
    requireAllUsed?: boolean;
    /** Fail when no server was started, or none was asked anything (true). */
    required?: boolean;
    /** Do not fail for requests that were not recorded. */
    allowMisses?: boolean;
    /** The program, in place of the one in MCPREEL_BIN or PATH. */
    binary?: string;
}

/** Whom a fault hits; a call of a tool where no method is said. */
export interface Target {
    method?: string;
    server?: string;
    /** Of a tool, prompt or resource; * stands for any text. */
    name?: string;
    /** Values by JSON pointer. */
    arguments?: Record<string, unknown>;
    /** A number, some, or a range such as `2..4`. */
    nth?: number | number[] | string;
    probability?: number;
    seed?: number;
}

export interface FaultEntry {
    target: Target;
    type: string;
    params: Record<string, unknown>;
}

export declare const Fault: {
    delay(ms: number, target?: Target): FaultEntry;
    timeout(target?: Target): FaultEntry;
    error(error?: { code?: number; message?: string; data?: unknown }, target?: Target): FaultEntry;
    malformed(strategy?: 'truncate' | 'not_json' | 'wrong_id', target?: Target): FaultEntry;
    disconnect(how?: { afterResponse?: boolean }, target?: Target): FaultEntry;
    httpStatus(status: number, more?: { headers?: Record<string, string>; body?: string }, target?: Target): FaultEntry;
    sessionExpired(target?: Target): FaultEntry;
    cutStream(afterEvents?: number, target?: Target): FaultEntry;
    drip(bytesPerSecond: number, target?: Target): FaultEntry;
    duplicate(target?: Target): FaultEntry;
    late(target?: Target): FaultEntry;
    reorder(withinMs?: number, target?: Target): FaultEntry;
    stderrNoise(noise?: { text?: string; repeat?: number }, target?: Target): FaultEntry;
    exit(how?: { code?: number; afterResponse?: boolean }, target?: Target): FaultEntry;
};

/** What was asked and what was recorded do not agree, or something could not be recorded. */
export declare class CassetteError extends Error {}

export declare class Cassette {
    constructor(path: string, settings?: Settings);
    readonly path: string;
    readonly mode: string;
    /** Whether the servers are recorded, and not replayed. */
    readonly recording: boolean;
    begin(): Promise<this>;
    /** What the client starts in place of the server, as StdioClientTransport takes it. */
    serverCommand(
        command: string | readonly string[] | { command: string; args?: string[] },
        more?: { server?: string }
    ): { command: string; args: string[] };
    /** The URL for the client to use in place of the server's. */
    serverUrl(
        url: string | URL,
        more?: { server?: string; headers?: Record<string, string>; headerEnv?: Record<string, string> }
    ): Promise<string>;
    /** The same cassette with faults in its replay. */
    withFaults(faults: FaultEntry | FaultEntry[], more?: { require?: boolean } & Settings): Promise<Cassette>;
    /** Waits for the servers, ends the session, and throws a CassetteError if something went wrong. */
    end(): Promise<void>;
    /** As `end`, but gives what went wrong in words, or nothing. */
    finish(): Promise<string>;
}

/** What vitest and node:test give to a test. */
export interface TestContext {
    name?: string;
    task?: unknown;
    after?: unknown;
    onTestFinished?: unknown;
}

/** The cassette of a test; it ends with the test. */
export declare function useCassette(context: TestContext, settings?: Settings): Promise<Cassette>;
/** The cassette that the settings name; `end()` has to be called. */
export declare function useCassette(settings: Settings): Promise<Cassette>;
/** Lends a cassette, and ends it. */
export declare function withCassette<T>(settings: Settings, body: (cassette: Cassette) => Promise<T> | T): Promise<T>;
