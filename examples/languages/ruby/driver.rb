# Ruby as a language of Membrane: takes turns from the door (docs/languages.md), and evaluates their code where names
# stay. It is started once, when the warm image is made.

require "json"
require "stringio"

module Membrane
  # A host function failed; `grant` is what would allow it, where one would.
  class Error < StandardError
    attr_reader :errno, :grant

    def initialize(shown)
      super(shown["message"])
      @errno = shown["errno"]
      @grant = shown["grant"]
    end
  end

  class PermissionError < Error
  end

  @door = File.open("/dev/membrane", "r+b")
  @turns = STDIN

  class << self
    # Calls a capability: Membrane.call("http.get", "https://example.org/").
    def call(name, *arguments)
      answer = ask("call" => name, "arguments" => arguments)
      if (shown = answer["error"])
        raise (shown["errno"] == "EACCES" ? PermissionError : Error).new(shown)
      end
      value = answer["value"]
      value.is_a?(Hash) && value.key?("base64") ? value["base64"].unpack1("m") : value
    end

    def take_turns
      while @turns.gets
        turn = ask("session" => "next")
        ask({ "session" => "result" }.merge(take(turn["value"] || turn)))
      end
    end

    private

    # One write is a request; what is read until the end is its answer.
    def ask(request)
      @door.syswrite(JSON.generate(request))
      answer = +""
      begin
        loop { answer << @door.sysread(65_536) }
      rescue EOFError
        JSON.parse(answer)
      end
    end

    def take(turn)
      srand(turn["fresh"]["entropy_hex"].hex) if turn["fresh"]
      ARGV.replace(turn["arguments"])
      $stdin = StringIO.new(turn["input"])
      value = eval(turn["code"], TOPLEVEL_BINDING, turn["name"])
      value.nil? || turn["mode"] == "script" ? { "outcome" => "ok" } : { "outcome" => "ok", "value" => { "text/plain" => text_of(value) } }
    rescue SystemExit => e
      { "outcome" => "exit", "exit_code" => e.status }
    rescue SyntaxError => e
      turn["mode"] == "cell" && goes_on?(e) ? { "outcome" => "incomplete" } : { "outcome" => "error", "error" => told_of(e) }
    rescue Exception => e
      { "outcome" => "error", "error" => told_of(e) }
    ensure
      $stdout.flush
      $stderr.flush
    end

    def goes_on?(error)
      error.message.match?(/unexpected end-of-input|meets end of file|anywhere before EOF/)
    end

    def text_of(value)
      value.inspect.encode("UTF-8", invalid: :replace, undef: :replace).scrub
    end

    # Without the frames of this file.
    def told_of(error)
      error.set_backtrace((error.backtrace || []).reject { |line| line.include?(__FILE__) })
      { "type" => error.class.name, "message" => error.message.scrub, "traceback" => error.full_message(highlight: false).scrub }
    end
  end
end

$stdout.sync = true
Membrane.take_turns
