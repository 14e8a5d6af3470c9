xquery version "3.1";

(: The values of XSCL, as its language page defines them, in XQuery. Nothing here relies on XQuery's
   own casts of untyped values, which are another language's rules. A value is a node, an xs:string
   or an xs:double; a function takes the first of several nodes, as XPath 1.0 does. :)

declare namespace xscl = "urn:xscl:witness";
declare namespace err = "http://www.w3.org/2005/xqt-errors";

(: Documents are maps of id, streams, start, end (microseconds) and tree (a document node). Those that
   are published have as `match` what the match looks like in the answer, base documents nothing. :)
declare variable $documents as map(*)* external := ();

declare function xscl:same($a as map(*), $b as map(*)) as xs:boolean {
  $a?id eq $b?id
};

(: -- matches ------------------------------------------------------------------------------- :)

(: What a match is known by: its documents and the nodes that SELECT names. :)
declare function xscl:key($query as xs:string, $documents as map(*)*, $nodes as node()*) as xs:string {
  string-join(($query, $documents?id, $nodes ! path(.)), "&#10;")
};

(: A match as the document that it publishes. :)
declare function xscl:match(
  $key as xs:string, $documents as map(*)*, $nodes as node()*, $result as element()
) as map(*) {
  let $start := min($documents?start)
  let $end := max($documents?end)
  let $tree := document { $result }
  return map {
    "id": $key,
    "start": $start,
    "end": $end,
    "tree": $tree,
    "match": map {
      "start": $start,
      "end": $end,
      "documents": array { for $d in $documents return ($d?match, $d?id)[1] },
      "nodes": array { $nodes ! path(.) },
      "result": serialize($tree, map { "method": "xml", "omit-xml-declaration": true() })
    }
  }
};

(: The answer to a query, as JSON; of a query with a value that is undecided, that value. :)
declare function xscl:answer($matches as function() as map(*)*) as xs:string {
  try { serialize(array { $matches()?match }, map { "method": "json" }) }
  catch xscl:undecided { serialize($err:description, map { "method": "json" }) }
};

(: -- results ------------------------------------------------------------------------------- :)

(: The element that a match publishes where SELECT is no constructor. :)
declare function xscl:result($query as xs:string, $documents as map(*)*, $content as node()*) as element() {
  <result query="{$query}" start="{xscl:iso(min($documents?start))}" end="{xscl:iso(max($documents?end))}">{
    $content
  }</result>
};

declare function xscl:iso($microseconds as xs:integer) as xs:string {
  string(xs:dateTime("1970-01-01T00:00:00Z")
    + xs:dayTimeDuration(replace("PT" || $microseconds div 1000000 || "S", "PT-", "-PT")))
};

(: Copies of nodes as content: of an attribute its text. :)
declare function xscl:copies($nodes as node()*) as node()* {
  for $node in $nodes
  return if ($node instance of attribute()) then text { string($node) } else $node
};

(: Copies of nodes under SELECT *: of an attribute an element of its name. :)
declare function xscl:selected($nodes as node()*) as node()* {
  for $node in $nodes
  return
    if ($node instance of attribute()) then element { local-name($node) } { string($node) }
    else $node
};

(: -- values -------------------------------------------------------------------------------- :)

(: XPath 1.0's string(). :)
declare function xscl:string($value as item()*) as xs:string {
  let $one := head($value)
  return
    typeswitch ($one)
      case xs:double return xscl:decimal-notation($one)
      case empty-sequence() return ""
      default return string($one)
};

(: A number without exponent, with the fewest digits that tell it from all others. :)
declare function xscl:decimal-notation($number as xs:double) as xs:string {
  if ($number ne $number) then "NaN"
  else if ($number eq 0) then "0"
  else if (abs($number) eq xs:double("INF")) then (if ($number gt 0) then "Infinity" else "-Infinity")
  else
    let $sign := if ($number lt 0) then "-" else ""
    let $text := string(abs($number))
    return
      if (not(contains($text, "E"))) then $sign || $text
      else
        let $digits := replace(substring-before($text, "E"), "\.", "")
        let $point := string-length(substring-before($text, ".")) + xs:integer(substring-after($text, "E"))
        let $zeros := string-join((1 to max(($point - string-length($digits), 1 - $point))) ! "0")
        let $padded := if ($point le 0) then $zeros || $digits else $digits || $zeros
        let $whole := substring($padded, 1, max(($point, 1)))
        let $fraction := replace(substring($padded, max(($point, 1)) + 1), "0+$", "")
        return $sign || $whole || (if ($fraction ne "") then "." || $fraction else "")
};

(: XPath 1.0's number(): a minus, digits and a point; neither plus nor exponent; else NaN. :)
declare function xscl:number($value as item()*) as xs:double {
  let $one := head($value)
  return
    if ($one instance of xs:double) then $one
    else
      let $text := xscl:trim(string($one))
      return
        if (matches($text, "^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)$")) then xs:double($text)
        else xs:double("NaN")
};

declare function xscl:trim($text as xs:string) as xs:string {
  replace($text, "^[ \t\r\n]+|[ \t\r\n]+$", "")
};

(: XPath 1.0's substring(): the characters at the positions p with round($from) <= p, and p less than
   round($from) + round($length). Spelled out, since Saxon's own sometimes does not round. :)
declare function xscl:substring(
  $value as item()*, $from as xs:double, $length as xs:double
) as xs:string {
  codepoints-to-string(
    for $character at $p in string-to-codepoints(xscl:string($value))
    where $p ge round($from) and $p lt round($from) + round($length)
    return $character)
};

declare function xscl:substring($value as item()*, $from as xs:double) as xs:string {
  codepoints-to-string(
    for $character at $p in string-to-codepoints(xscl:string($value))
    where $p ge round($from)
    return $character)
};

(: What this witness has no opinion on: the query is then left out of the comparison. :)
declare function xscl:undecided($function as xs:string, $text as xs:string) {
  error(xs:QName("xscl:undecided"), $function || "(" || $text || ")")
};

(: Blanks around it that are none of XML's. :)
declare function xscl:odd-blanks($text as xs:string) as xs:boolean {
  matches($text, "^[\p{Z}\p{Cc}]|[\p{Z}\p{Cc}]$")
};

(: Seconds since 1970 of the dates that feeds write; other spellings of ISO 8601 are left undecided. :)
declare function xscl:date($value as item()*) as xs:double {
  let $text := xscl:trim(xscl:string($value))
  let $iso := "^(\d{4}-\d\d-\d\d)([Tt ](\d\d:\d\d)(:(\d\d(\.\d+)?))?(Z|[+\-]\d\d:\d\d)?)?$"
  let $other-iso := "^\d{4}(-?W\d\d(-?\d)?|-?\d{3}|-?\d\d(-?\d\d)?)?" ||
    "([Tt ]\d\d(:?\d\d(:?\d\d)?)?([.,]\d+)?\s*([Zz]|[+\-]\d\d(:?\d\d)?)?)?$"
  let $rfc := "^([A-Z][a-z]{2}, )?\d\d? (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} " ||
    "\d\d:\d\d(:\d\d)? (GMT|UT|[+\-]\d{4})$"
  let $other-rfc := "\d[\s\-]+(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
  return
    if (matches($text, $iso)) then
      let $day := substring($text, 1, 10)
      let $time := replace($text, $iso, "$3")
      let $seconds := replace($text, $iso, "$5")
      let $zone := replace($text, $iso, "$7")
      let $lexical := $day || "T" || (if ($time) then $time else "00:00") || ":" ||
        (if ($seconds) then $seconds else "00") || (if ($zone) then $zone else "Z")
      return
        if ($lexical castable as xs:dateTime) then xscl:seconds(xs:dateTime($lexical))
        else if (contains($lexical, ":60")) then xscl:undecided("date", $text)
        else xs:double("NaN")
    else if (matches($text, $rfc)) then xscl:seconds(parse-ietf-date($text))
    else if (matches($text, $other-iso) or matches($text, $other-rfc, "i") or xscl:odd-blanks($text)) then
      xscl:undecided("date", $text)
    else xs:double("NaN")
};

declare function xscl:seconds($time as xs:dateTime) as xs:double {
  xs:double(($time - xs:dateTime("1970-01-01T00:00:00Z")) div xs:dayTimeDuration("PT1S"))
};

(: A URL without tracking parameters, fragment and trailing slash, its host in lower case. :)
declare function xscl:url($value as item()*) as xs:string {
  let $text := xscl:trim(xscl:string($value))
  return
    if (xscl:odd-blanks($text)) then xscl:undecided("url", $text)
    else if (not(matches($text, "^[A-Za-z][A-Za-z0-9+.\-]*://\S*$"))) then $text
    else
      let $bare := replace($text, "#.*$", "")
      let $address := replace($bare, "\?.*$", "")
      let $scheme := lower-case(substring-before($address, "://"))
      let $host := replace(substring-after($address, "://"), "/.*$", "")
      let $path := substring($address, string-length($scheme || "://" || $host) + 1)
      let $kept := tokenize(substring-after($bare, "?"), "&amp;")
        [. ne "" and not(matches(., "^(utm_[^=]*|fbclid|gclid)(=.*)?$"))]
      let $query := if (exists($kept)) then "?" || string-join($kept, "&amp;") else ""
      return
        if (not(matches($host, "^[A-Za-z0-9.\-]+$"))) then xscl:undecided("url", $text)
        else $scheme || "://" || lower-case($host) || replace($path, "/+$", "") || $query
};

(: Text folded to lower case, punctuation and runs of blanks reduced to one blank. Upper case first:
   that is how the folding of Unicode makes one of words with sharp s and with double s. :)
declare function xscl:words($value as item()*) as xs:string {
  normalize-space(
    replace(lower-case(upper-case(xscl:string($value))), "[\p{P}\p{Z}\p{C}]+", " "))
};
